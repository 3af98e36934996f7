/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/pulls.c - see pulls.h. */
#include "plugin/pulls.h"
#include "plugin/context.h"

static struct nigh_message **link_to(struct nigh_message **link, const struct nigh_message *message)
{
    while (*link && *link != message)
        link = &(*link)->next;
    return link;
}

/* Mostly it is the first. */
static bool leave_pulls(struct nigh_context *context, const struct nigh_message *message)
{
    struct nigh_message **link = message->before ? &message->before->next : &context->pulls;

    if (*link != message)
        return false;
    *link = message->next;
    if (message->next)
        message->next->before = message->before;
    else
        context->pulls_last = message->before;
    context->pulls_count--;
    return true;
}

void nigh_pulls_add(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    message->next = NULL;
    message->before = context->pulls_last;
    if (message->before)
        message->before->next = message;
    else
        context->pulls = message;
    context->pulls_last = message;
    context->pulls_count++;
}

void nigh_pulls_taken(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    if (!leave_pulls(context, message))
        return;
    message->before = NULL;
    message->next = context->copying;
    context->copying = message;
}

void nigh_pulls_go_on(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    *link_to(&context->copying, message) = message->next;
    message->before = NULL;
    message->next = context->pulls;
    if (message->next)
        message->next->before = message;
    else
        context->pulls_last = message;
    context->pulls = message;
    context->pulls_count++;
}

void nigh_pulls_leave(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;
    struct nigh_message **link;

    if (leave_pulls(context, message))
        return;
    link = link_to(&context->copying, message);
    if (*link)
        *link = message->next;
}
