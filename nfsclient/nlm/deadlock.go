// Deadlocks between programs of one mount.

package nlm

// A server detects deadlocks only among requests in its queue, not among polling ones. So the mount
// checks its own requests here, because it knows all its locks. A cycle through other mounts' locks
// is not found here: only the server knows those locks.
//
// The check is for fcntl(2), which has EDEADLK; flock(2) has no such error.

// maxVisits bounds the owners visited by one check.
const maxVisits = 16 << 10

// wouldDeadlock reports whether w, not pending yet, would wait for its own owner, directly or
// through other waiting owners. The caller holds l.mu.
func (l *Locks) wouldDeadlock(w *wait) bool {
	seen, looks := map[*owner]bool{}, maxVisits
	for next := []*wait{w}; len(next) > 0; next = next[1:] {
		at := next[0]
		for _, o := range l.files[at.owner.fh].owners {
			if looks--; looks < 0 {
				return false
			}
			if o == at.owner || seen[o] || !o.locked.conflicts(at.span) {
				continue
			}
			if o == w.owner {
				return true
			}
			seen[o] = true
			next = append(next, o.pending...)
		}
	}
	return false
}
