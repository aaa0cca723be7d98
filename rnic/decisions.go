// Counts of the decisions of mechanisms for speed.

package rnic

import "github.com/nfsrdma/nfsrdma/internal/tally"

// Decisions counts the decisions of one mechanism, in three fields of uint64. Won: the mechanism
// acted, and that paid. Lost: it acted in vain, or for too long. Passed: a backoff or a limit kept
// the mechanism from acting. d.Since(before) returns the decisions between two counts.
type Decisions = tally.Counts

// A DecisionTable is a map of Decisions by the mechanism's name. t.Add(name, d) and t.AddAll(other)
// sum them.
type DecisionTable = tally.Table

// A DecisionSource is an Endpoint that counts decisions: its method AddTo(t DecisionTable) adds
// them to t. Any goroutine may call it.
type DecisionSource = tally.Source

// JoinDecisions adds a source to Device.Mechanisms, while its Endpoint is connected. The sum's lock
// comes after all locks that the caller holds.
func (q *ProviderQP) JoinDecisions(s DecisionSource) { q.dev.tally.Join(s) }

// LeaveDecisions removes a source and keeps its counts; later ones are lost.
func (q *ProviderQP) LeaveDecisions(s DecisionSource) { q.dev.tally.Leave(s) }
