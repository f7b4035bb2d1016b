"""Row locks of orders.

Two transactions lock both an order and a payment. `record_capture` locks an uncaptured payment and then its order;
`refund_order` locks the order and then the captured payment. These are never the same payment, so they cannot deadlock.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection
from django.db.models.functions import Now

from orders.models import Order, Payment
from orders.states import OrderState, PaymentState

_LOCK_DUE_ORDERS = """
SELECT id FROM orders_order AS due
WHERE state = 'PENDING_PAYMENT' AND pay_before <= now()
  AND NOT EXISTS (SELECT FROM orders_payment WHERE order_id = due.id AND orders_payment.state = 'open')
ORDER BY pay_before, id
LIMIT %s
FOR UPDATE SKIP LOCKED
"""

_WITHOUT_OPEN_ATTEMPT = """
SELECT id FROM unnest(%s::uuid[]) AS row (id)
WHERE NOT EXISTS (SELECT FROM orders_payment WHERE order_id = row.id AND state = 'open')
"""


def lock_due_orders(limit: int) -> list[UUID]:
    """Orders whose time to pay has ended and that have no open attempt.

    The second statement sees an attempt that was committed between the snapshot of the first one and its lock. No
    attempt can start after the lock.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_DUE_ORDERS, [limit])
        cursor.execute(_WITHOUT_OPEN_ATTEMPT, [[row[0] for row in cursor.fetchall()]])
        return [row[0] for row in cursor.fetchall()]


def lock_payable_order(order_id: UUID) -> Order | None:
    """None: the order is not waiting for payment, or its time to pay has ended."""
    payable = Order.objects.filter(id=order_id, state=OrderState.PENDING_PAYMENT, pay_before__gt=Now())
    return payable.select_for_update().first()


def lock_unsettled_payment(payment_id: UUID) -> Payment | None:
    """None: the payment does not exist, or its capture has been recorded."""
    unsettled = Payment.objects.filter(id=payment_id, state__in=(PaymentState.OPEN, PaymentState.VOIDED))
    return unsettled.select_for_update().first()


def lock_counting_payment(order_id: UUID) -> Payment | None:
    """The captured payment that paid for the order."""
    counting = Payment.objects.filter(order_id=order_id, state=PaymentState.CAPTURED, late=False)
    return counting.select_for_update().first()
