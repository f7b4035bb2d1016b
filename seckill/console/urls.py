"""Addresses of the console."""

from django.urls import path

from seckill.console import board, dead_letters, new_sale, operations, rush, stack_operations, staff, trace
from seckill.console.reports import views as reports

app_name = "console"
urlpatterns = [
    path("", board.board, name="board"),
    path("/live", board.live, name="live"),
    path("/login", staff.login, name="login"),
    path("/logout", staff.logout, name="logout"),
    path("/sales/new", new_sale.new_sale, name="new-sale"),
    path("/sales/<row_id:sale_id>", operations.sale, name="sale"),
    path("/refund", operations.refund, name="refund"),
    path("/switch", operations.switch_group, name="switch"),
    path("/stack", stack_operations.stack, name="stack"),
    path("/fault", stack_operations.fault, name="fault"),
    path("/rush", rush.start_rush, name="rush"),
    path("/audit", operations.audit, name="audit"),
    path("/letters", dead_letters.letters, name="letters"),
    path("/letters/<row_id:number>", dead_letters.letter, name="letter"),
    path("/trace", trace.trace, name="trace"),
    path("/reports", reports.reports, name="reports"),
    path("/reports/<row_id:number>", reports.report, name="report"),
]
