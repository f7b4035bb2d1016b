"""Situations that have broken replicated logs before, message by message. Each asserts what a correct one does.

S1 and so on are the numbers of the design's list. A seeded bug has to fail in the scenario that its entry names.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.replication.isr_scenarios import (
    a_follower_behind_the_log_start_begins_inside_a_batch,
    a_follower_promises_only_what_it_has_synced,
    a_late_proposal_that_is_applied_after_all_does_no_harm,
    a_message_about_a_deleted_topic_means_nothing_to_the_next_one,
    a_refused_proposal_no_longer_holds_the_high_watermark,
    s9_a_new_leader_admits_only_followers_with_everything_from_before_its_term,
    s10_a_proposed_member_holds_the_high_watermark,
    s11_a_proposal_without_an_answer_stays_in_force,
    s12_a_proposal_that_has_not_seen_the_newest_isr_is_refused,
    s13_a_broker_that_has_lost_its_disk_is_not_taken_for_its_former_self,
    s18_acks_all_needs_min_insync_replicas_before_and_after_the_append,
    s19_a_leader_without_controller_acknowledges_and_shows_nothing_new,
    s20_a_slow_follower_leaves_the_isr_and_comes_back,
    s24_a_new_leader_does_not_report_the_committed_end_before_it_knows_it,
)
from tests.simulation.replication.scenario_steps import Scenario
from tests.simulation.replication.truncation_scenarios import (
    s1_a_follower_keeps_what_is_above_its_high_watermark_when_the_leader_changes,
    s2_a_returning_leader_gives_up_what_no_other_broker_has,
    s3_after_two_fast_elections_the_own_epoch_decides_where_to_cut,
    s5_a_fetch_of_an_earlier_term_counts_for_nothing,
    s6_an_answer_of_an_earlier_leader_is_dropped,
    s7_every_term_begins_where_the_log_ends_even_without_records,
    s8_a_batch_that_was_cut_may_be_written_again,
    s17_after_an_unclean_election_the_logs_become_equal_and_readers_notice_the_loss,
)

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.__name__: scenario
    for scenario in (
        s1_a_follower_keeps_what_is_above_its_high_watermark_when_the_leader_changes,
        s2_a_returning_leader_gives_up_what_no_other_broker_has,
        s3_after_two_fast_elections_the_own_epoch_decides_where_to_cut,
        s5_a_fetch_of_an_earlier_term_counts_for_nothing,
        s6_an_answer_of_an_earlier_leader_is_dropped,
        s7_every_term_begins_where_the_log_ends_even_without_records,
        s8_a_batch_that_was_cut_may_be_written_again,
        s9_a_new_leader_admits_only_followers_with_everything_from_before_its_term,
        s10_a_proposed_member_holds_the_high_watermark,
        s11_a_proposal_without_an_answer_stays_in_force,
        s12_a_proposal_that_has_not_seen_the_newest_isr_is_refused,
        s13_a_broker_that_has_lost_its_disk_is_not_taken_for_its_former_self,
        a_refused_proposal_no_longer_holds_the_high_watermark,
        a_late_proposal_that_is_applied_after_all_does_no_harm,
        s18_acks_all_needs_min_insync_replicas_before_and_after_the_append,
        s19_a_leader_without_controller_acknowledges_and_shows_nothing_new,
        s20_a_slow_follower_leaves_the_isr_and_comes_back,
        s24_a_new_leader_does_not_report_the_committed_end_before_it_knows_it,
        a_follower_behind_the_log_start_begins_inside_a_batch,
        a_message_about_a_deleted_topic_means_nothing_to_the_next_one,
        a_follower_promises_only_what_it_has_synced,
        s17_after_an_unclean_election_the_logs_become_equal_and_readers_notice_the_loss,
    )
}
