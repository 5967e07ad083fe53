//! Merging a cluster: which memory survives, which rows merge into it by which rule, which are left alone and why.

use std::collections::BTreeMap;

use memfold_simd::Similarity;

use super::conditions::{unmet_kind, unmet_likeness, unmet_measure, unmet_sameness, unmet_shape};
use super::context::{Context, Member, Merge, Rejection, has_vector};
use super::flags::Merging;
use crate::detect::Cluster;
use crate::memory::MemoryIndex;
use crate::policy::{Canonical, Rule, RuleAction};

/// A row that nothing happens to.
pub(super) struct LeftAlone {
    pub(super) cluster: usize,
    pub(super) row: MemoryIndex,
    pub(super) rejection: Rejection,
}

/// The merges of a cluster, and the members that no merge takes.
#[derive(Default)]
pub(super) struct Outcome<'a> {
    pub(super) merges: Vec<Merge<'a>>,
    pub(super) left: Vec<LeftAlone>,
}

/// More rows than this are compared pairwise only through the cluster's smallest similarity.
const PAIRWISE_ROWS_MAX: usize = 512;

/// So many survivors are tried in one cluster; further members are left alone.
const SURVIVORS_TRIED_MAX: usize = 64;

/// Decides which members of a cluster merge.
pub(super) fn merge_cluster<'a>(
    context: &Context<'a>,
    number: usize,
    cluster: &Cluster,
) -> Outcome<'a> {
    let members: Vec<Member<'a>> =
        cluster.members.iter().map(|&index| context.member(index)).collect();
    let mut merger = Merger {
        context,
        number,
        cluster,
        open: (0..members.len()).collect(),
        members,
        outcome: Outcome::default(),
        rejections: BTreeMap::new(),
    };
    merger.merge_into_protected();
    merger.merge_the_rest();
    merger.leave_alone();
    merger.outcome
}

struct Merger<'c, 'a> {
    context: &'c Context<'a>,
    number: usize,
    cluster: &'c Cluster,
    members: Vec<Member<'a>>,
    /// Positions of undecided members, in cluster order.
    open: Vec<usize>,
    outcome: Outcome<'a>,
    /// The first rejection that a member met.
    rejections: BTreeMap<usize, Rejection>,
}

/// A rule and the positions of the members it merges, in cluster order.
struct Choice<'a> {
    rule: &'a Rule,
    merged: Vec<usize>,
}

impl Choice<'_> {
    fn has(&self, row: usize) -> bool {
        self.merged.binary_search(&row).is_ok()
    }
}

impl<'a> Merger<'_, 'a> {
    fn is_protected(&self, position: usize) -> bool {
        self.context.protected.contains_key(&self.members[position].index)
    }

    /// Merges equal texts into protected members, which stay as they are.
    fn merge_into_protected(&mut self) {
        let (mut hosts, open): (Vec<_>, Vec<_>) =
            self.open.iter().partition(|&&position| self.is_protected(position));
        self.open = open;
        hosts.sort_by_key(|&host| !has_vector(self.members[host].memory));
        for &host in &hosts {
            let by = &self.context.protected[&self.members[host].index];
            self.rejections.insert(host, Rejection::new("protection", format!("protected: {by}")));
        }
        for host in hosts {
            let key = &self.members[host].key;
            let equal = |&position: &usize| self.members[position].key == *key;
            let (equal, others): (Vec<_>, Vec<_>) = self.open.iter().copied().partition(equal);
            let (lossless, losing): (Vec<_>, Vec<_>) =
                equal.into_iter().partition(|&row| self.loss(host, row).is_none());
            for &row in &losing {
                if let Some(loss) = self.loss(host, row) {
                    self.rejections.entry(row).or_insert(loss);
                }
            }
            let rest = self.try_merge(host, &lossless, true);
            self.open = others.into_iter().chain(losing).chain(rest).collect();
            self.open.sort_unstable();
        }
    }

    /// The values that would be lost if a row merged into a protected one that must stay as it is. Ordinary categories are not:
    /// they say where a text was filed, and the archived row keeps them.
    fn loss(&self, host: usize, row: usize) -> Option<Rejection> {
        let (host, row) = (self.members[host].memory, self.members[row].memory);
        let id = &host.id;
        let expires_earlier =
            host.expires_at.is_some_and(|end| row.expires_at.is_none_or(|later| later > end));
        let reason = if row.importance > host.importance {
            format!("protected {id} is less important")
        } else if expires_earlier {
            format!("protected {id} expires earlier")
        } else {
            return None;
        };
        Some(Rejection::new("protection", reason))
    }

    /// Merges unprotected members among themselves; members that cannot merge into a survivor are tried among
    /// itself.
    fn merge_the_rest(&mut self) {
        for _ in 0..SURVIVORS_TRIED_MAX {
            if self.open.len() < 2 {
                return;
            }
            let survivor = self.pick_survivor();
            let rest: Vec<usize> = self.open.iter().copied().filter(|&p| p != survivor).collect();
            self.open = self.try_merge(survivor, &rest, false);
        }
        let tried = format!("left alone after {SURVIVORS_TRIED_MAX} survivors were tried");
        for &position in &self.open {
            self.rejections.entry(position).or_insert(Rejection::new("cluster", tried.as_str()));
        }
    }

    /// The newest readable open member with a vector, or an older one that is proven to say more, or the same in a better
    /// form; or the most informative one; never a row of unreadable time while a readable one is there.
    fn pick_survivor(&self) -> usize {
        let readable = |&&p: &&usize| self.members[p].memory.created_at.instant().is_some();
        let mut candidates: Vec<usize> = self.open.iter().filter(readable).copied().collect();
        if candidates.is_empty() {
            candidates.clone_from(&self.open);
        }
        if candidates.iter().any(|&p| has_vector(self.members[p].memory)) {
            candidates.retain(|&p| has_vector(self.members[p].memory));
        }
        let first = candidates[0];
        match self.canonical() {
            Canonical::Newest => candidates[1..].iter().fold(first, |best, &candidate| {
                let (newer, older) = (&self.members[best], &self.members[candidate]);
                let context = self.context;
                let is_better =
                    context.says_more(older, newer) || context.is_written_better(older, newer);
                if is_better { candidate } else { best }
            }),
            Canonical::MostInformative => candidates[1..].iter().fold(first, |best, &candidate| {
                let says =
                    |p: usize| self.context.input.guard.informativeness(self.members[p].index);
                if says(candidate) > says(best) { candidate } else { best }
            }),
        }
    }

    /// Who survives by the first merge rule that the cluster as a whole meets, else by the policy.
    fn canonical(&self) -> Canonical {
        let (size, similarity) = (self.open.len(), self.cluster.min_similarity);
        let equal = self.cluster.equal_text;
        self.context
            .merge_rules()
            .find(|rule| shape_holds(rule, size, similarity, equal).is_none())
            .and_then(|rule| rule.then.params.canonical)
            .unwrap_or(Canonical::Newest)
    }

    /// Merges all members that it can into a survivor; returns the rest.
    fn try_merge(&mut self, survivor: usize, rows: &[usize], protected: bool) -> Vec<usize> {
        let candidates = self.mergeable(survivor, rows);
        let Some(Choice { rule, merged }) = self.choose(survivor, candidates) else {
            return rows.to_vec();
        };
        let mut all = vec![survivor];
        all.extend(&merged);
        let equal_text = self.all_equal(&all);
        self.outcome.merges.push(Merge {
            cluster: self.number,
            survivor: self.members[survivor].index,
            merged: merged.iter().map(|&position| self.members[position].index).collect(),
            rule,
            similarity: self.smallest(&all, |a, b| self.context.similarity(a.index, b.index)),
            equal_text,
            survivor_protected: protected,
        });
        for position in all {
            self.rejections.remove(&position);
        }
        rows.iter().copied().filter(|row| merged.binary_search(row).is_err()).collect()
    }

    /// The rows that nothing but a rule keeps from merging into the survivor.
    fn mergeable(&mut self, survivor: usize, rows: &[usize]) -> Vec<usize> {
        let mut candidates: Vec<usize> = Vec::with_capacity(rows.len());
        let mut merging = Merging::new(self.context);
        for &row in rows {
            let (host, member) = (&self.members[survivor], &self.members[row]);
            let rejection =
                merging.rejection(member).or_else(|| self.context.rejection(host, member));
            match rejection {
                Some(rejection) => {
                    self.rejections.entry(row).or_insert(rejection);
                }
                None => {
                    merging.add(member);
                    candidates.push(row);
                }
            }
        }
        candidates
    }

    /// The merge rule that merges most rows into the survivor, the first among equals. A noop rule
    /// takes its rows away from the rules behind it.
    fn choose(&mut self, survivor: usize, mut candidates: Vec<usize>) -> Option<Choice<'a>> {
        let mut best: Option<Choice<'a>> = None;
        let mut last_unmet = BTreeMap::new();
        for &rule in &self.context.rules {
            let merges = match rule.then.action {
                RuleAction::Merge => true,
                RuleAction::Noop => false,
                _ => continue,
            };
            let matching = self.matching(rule, survivor, &candidates, &mut last_unmet);
            if !merges {
                let chosen = |row: &usize| best.as_ref().is_some_and(|best| best.has(*row));
                for row in matching.into_iter().filter(|row| !chosen(row)) {
                    candidates.retain(|&candidate| candidate != row);
                    let reason = "left alone by rule";
                    self.rejections.entry(row).or_insert(Rejection::new(&rule.id, reason));
                }
            } else if matching.len() > best.as_ref().map_or(0, |best| best.merged.len()) {
                best = Some(Choice { rule, merged: matching });
            }
        }
        for row in candidates {
            let is_merged = best.as_ref().is_some_and(|best| best.has(row));
            if let (false, Some(unmet)) = (is_merged, last_unmet.remove(&row)) {
                self.rejections.entry(row).or_insert(unmet);
            }
        }
        best
    }

    /// The candidates that a rule would merge into the survivor; empty where its conditions on the
    /// whole do not hold.
    fn matching(
        &self,
        rule: &Rule,
        survivor: usize,
        candidates: &[usize],
        unmet: &mut BTreeMap<usize, Rejection>,
    ) -> Vec<usize> {
        let mut matching = Vec::new();
        for &row in candidates {
            match self.unmet_by(rule, survivor, row) {
                None => matching.push(row),
                Some(reason) => {
                    unmet.insert(row, Rejection::new(&rule.id, format!("not {reason}")));
                }
            }
        }
        matching = self.alike(rule, survivor, matching);
        let mut all = vec![survivor];
        all.extend(&matching);
        let similarity = self.smallest(&all, |a, b| self.context.effective(a, b));
        let equal = self.context.links_equal_text() && self.all_equal(&all);
        match shape_holds(rule, all.len(), similarity, equal) {
            None => matching,
            Some(reason) => {
                for row in matching {
                    unmet.insert(row, Rejection::new(&rule.id, format!("not {reason}")));
                }
                Vec::new()
            }
        }
    }

    /// The first condition that a row does not meet.
    fn unmet_by(&self, rule: &Rule, survivor: usize, row: usize) -> Option<String> {
        let (host, member) = (&self.members[survivor], &self.members[row]);
        let when = &rule.when;
        let equal = self.context.links_equal_text() && host.key == member.key;
        let near = |minimum| {
            equal || self.context.effective(host, member).is_some_and(|value| value >= minimum)
        };
        if let Some(minimum) = when.min_similarity.filter(|&minimum| !near(minimum)) {
            return Some(format!("similarity >= {minimum}"));
        }
        if when.is_proven_same() && !self.context.is_same(host, member) {
            return Some("proven to say the same".to_owned());
        }
        let (memory, now) = (member.memory, self.context.input.now);
        let (left, right) = (&host.memory.categories, &memory.categories);
        unmet_kind(when, left)
            .or_else(|| unmet_kind(when, right))
            .or_else(|| unmet_measure(when, memory, memory.access_count, now))
            .or_else(|| unmet_sameness(when, left, right))
            .or_else(|| unmet_likeness(when, left, right))
    }

    /// The rows that are all at least as similar to each other as the rule asks, taken in
    /// cluster order.
    fn alike(&self, rule: &Rule, survivor: usize, rows: Vec<usize>) -> Vec<usize> {
        let Some(minimum) = rule.when.min_similarity else { return rows };
        let all_are = self.cluster.min_similarity.is_some_and(|smallest| smallest >= minimum);
        let key = &self.members[survivor].key;
        if all_are || self.all_equal(&rows) && rows.iter().all(|&r| self.members[r].key == *key) {
            return rows;
        }
        if rows.len() > PAIRWISE_ROWS_MAX {
            return rows.into_iter().filter(|&row| self.members[row].key == *key).collect();
        }
        let mut taken: Vec<usize> = Vec::with_capacity(rows.len());
        for row in rows {
            let near = |&other: &usize| {
                let value = self.context.effective(&self.members[row], &self.members[other]);
                value.is_none_or(|value| value >= minimum)
            };
            if taken.iter().all(near) {
                taken.push(row);
            }
        }
        taken
    }

    fn all_equal(&self, positions: &[usize]) -> bool {
        positions.windows(2).all(|pair| self.members[pair[0]].key == self.members[pair[1]].key)
    }

    /// The smallest known similarity between any two of the rows.
    fn smallest(
        &self,
        positions: &[usize],
        similarity: impl Fn(&Member<'a>, &Member<'a>) -> Option<Similarity>,
    ) -> Option<Similarity> {
        if positions.len() > PAIRWISE_ROWS_MAX {
            let equal = self.context.input.policy.detect.exact_text && self.all_equal(positions);
            return self.cluster.min_similarity.or(equal.then_some(Similarity::ONE));
        }
        let members = |at: usize| &self.members[positions[at]];
        (1..positions.len())
            .flat_map(|right| (0..right).map(move |left| (left, right)))
            .filter_map(|(left, right)| similarity(members(left), members(right)))
            .min()
    }

    /// Records the undecided members as left alone, in cluster order.
    fn leave_alone(&mut self) {
        let mut is_merged = vec![false; self.members.len()];
        let positions: BTreeMap<_, _> =
            self.members.iter().enumerate().map(|(at, member)| (member.index, at)).collect();
        for merge in &self.outcome.merges {
            for index in merge.merged.iter().chain([&merge.survivor]) {
                is_merged[positions[index]] = true;
            }
        }
        let any_protected = (0..self.members.len()).any(|position| self.is_protected(position));
        for (position, member) in self.members.iter().enumerate() {
            if is_merged[position] {
                continue;
            }
            let rejection = self.rejections.remove(&position).unwrap_or_else(|| {
                if any_protected {
                    Rejection::new("protection", "its near duplicates are protected")
                } else {
                    Rejection::new("cluster", "nothing of its cluster merges into it")
                }
            });
            self.outcome.left.push(LeftAlone {
                cluster: self.number,
                row: member.index,
                rejection,
            });
        }
    }
}

/// Returns the first condition on the whole that does not hold.
fn shape_holds(
    rule: &Rule,
    size: usize,
    similarity: Option<Similarity>,
    equal_text: bool,
) -> Option<String> {
    let similarity = if equal_text { Some(Similarity::ONE) } else { similarity };
    unmet_shape(&rule.when, size, similarity)
}
