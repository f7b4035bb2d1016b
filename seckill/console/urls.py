"""Addresses of the console."""

from django.urls import path

from seckill.console import board, letters, operating, reports, staff, tracing

app_name = "console"
urlpatterns = [
    path("", board.board, name="board"),
    path("/live", board.live, name="live"),
    path("/login", staff.login, name="login"),
    path("/logout", staff.logout, name="logout"),
    path("/sales/<int:sale_id>", operating.sale, name="sale"),
    path("/refund", operating.refund, name="refund"),
    path("/switch", operating.switch_group, name="switch"),
    path("/stack", operating.stack, name="stack"),
    path("/fault", operating.fault, name="fault"),
    path("/audit", operating.audit, name="audit"),
    path("/letters", letters.letters, name="letters"),
    path("/letters/<int:number>", letters.letter, name="letter"),
    path("/trace", tracing.trace, name="trace"),
    path("/reports", reports.reports, name="reports"),
    path("/reports/<str:name>", reports.report, name="report"),
]
