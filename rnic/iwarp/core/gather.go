// Which posted work may be kept for a moment, so that more of it leaves in one batch.

package core

import "github.com/nfsrdma/nfsrdma/rnic"

// Bounds of what is kept.
const (
	gatherBytes = 64 << 10 // more gains nothing: it is a batch that costs more than the system call
	gatherOne   = 16 << 10 // of one message
)

// A gather knows how its program posts. One that posts several times before it asks for completions
// is likely to do so again, and its next post need not leave at once: it leaves when completions
// are asked for. One that posts and asks in turn has each post sent at once. It is guarded by
// Work.mu.
type gather struct {
	asks  uint32 // of the CQ, when posted last
	posts int    // since then
	many  bool   // there were several before
	bytes int    // kept
	group uint32 // number of those that are kept together
}

// keeps reports whether wrs, which have just been queued, may be kept, of waiting work requests in
// all. Only RDMA Writes and Reads are: the peer's program is told of neither, and ours waits for
// their completions.
func (g *gather) keeps(q *rnic.ProviderQP, wrs []rnic.Posted, waiting int) bool {
	n := 0
	for i := range wrs {
		p := &wrs[i]
		if p.Op != rnic.OpWrite && p.Op != rnic.OpRead || p.Unsignaled || p.Source != nil || p.Bytes > gatherOne {
			return false
		}
		n += int(p.Bytes)
	}
	if a := q.Asks(); a != g.asks {
		g.asks, g.many, g.posts = a, g.posts > 1, 0
	}
	g.posts++
	if waiting == len(wrs) {
		g.bytes = 0
		g.group++
	}
	g.bytes += n
	return (g.many || g.posts > 1) && g.bytes < gatherBytes
}

// Kept returns the number of the group of work requests that waits, if any does: it is another one
// once those that waited before have left.
func (w *Work) Kept() (group uint32, any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gather.group, w.sq.Waiting() > 0
}
