// Programs of one mount that wait for each other.

package nlm

// A server finds who would wait for itself among the requests in its queue. Of those that ask again
// and again it knows nothing; so those of one mount are looked at here, where all that it was
// granted is known. Others' locks in between are the server's to know.
//
// That is for fcntl(2), which has EDEADLK; flock(2) has no such error.

// maxLooks bounds how many owners are looked at.
const maxLooks = 16 << 10

// closes reports whether a wait, which is not pending yet, would wait for its own owner. mu is
// held.
func (l *Locks) closes(w *wait) bool {
	seen, looks := map[*owner]bool{}, maxLooks
	for next := []*wait{w}; len(next) > 0; next = next[1:] {
		at := next[0]
		for _, o := range l.files[at.owner.fh].owners {
			if looks--; looks < 0 {
				return false
			}
			if o == at.owner || seen[o] || !o.held.conflicts(at.span) {
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
