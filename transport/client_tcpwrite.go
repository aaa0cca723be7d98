// Writing calls to a TCP connection: who writes, which calls at once, and when another goes on.

package transport

import (
	"slices"
	"time"
)

// The first caller that finds nobody writing becomes the writer. It writes its own
// call, and then, while it has to wait for its reply in any case, the calls that
// others have queued meanwhile, many small ones by one system call. None of them is
// woken for that. As soon as the writer has nothing to wait for any more, another
// caller becomes the writer, which its goroutine learns by turn:
//
//	               enqueued, nobody writes
//	  (no writer) ───────────────────────────▶ k writes ──┐ own call not out, or reply
//	      ▲                                      │   ▲    │ not there: the next batch
//	      │          nothing is queued           │   └────┘
//	      └──────────────────────────────────────┤
//	                                             │ own call out and reply there, or given up:
//	                                             ▼ handOver
//	                                     the next caller writes
//
// A batch passes over half-written too: a caller never waits for the bytes of another.

// A writeState is where an outCall is with respect to the writer.
type writeState int

const (
	callIdle    writeState = iota // not queued yet, or all of it has been written
	callQueued                    // in out
	callWriting                   // in batch: the writer reads its memory
)

// batchMax is how many bytes of several calls are written at once. More would save
// nothing, and keep the writer from its own reply.
const batchMax = 64 << 10

// write writes the queued calls until there are none, or until another call has become the writer.
// k is the writer; mu is not held.
func (l *tcpLink) write(k *outCall) {
	for more, fresh := l.begin(k); more; {
		if fresh {
			l.gatherBatch()
		}
		more, fresh = l.written(k, l.gather.drain(l.nc, l))
	}
}

// begin reports whether k is to write now, and whether that is a fresh batch: see next.
func (l *tcpLink) begin(k *outCall) (more, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next(k)
}

// written notes how the writer k has written the batch, and is next after that.
func (l *tcpLink) written(k *outCall, err error) (more, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.yield {
		l.yield = false
		l.handOver(l.batch[0])
		return false, false
	}
	l.endBatch()
	if err != nil {
		l.end(err)
	}
	return l.next(k)
}

// next reports whether k goes on as the writer: with the rest of a batch, or with a fresh one,
// which it takes from the queue. The caller holds mu.
func (l *tcpLink) next(k *outCall) (more, fresh bool) {
	fresh = len(l.batch) == 0
	switch {
	case l.err != nil, fresh && len(l.out) == 0:
		l.endBatch() // one that was handed over when the connection ended
		l.writer = nil
		return false, false
	case fresh && k.tcp.state == callIdle && l.done(k, time.Now()):
		l.handOver(l.out[0])
		return false, false
	case fresh:
		l.nextBatch()
	}
	return true, fresh
}

// handOver makes k the writer. It is queued or in the batch, and so its goroutine is in
// await, where turn wakes it, or in leave, where the condition does.
func (l *tcpLink) handOver(k *outCall) {
	l.writer = k
	k.tcp.turn <- struct{}{}
	l.wrote.Broadcast()
}

// done reports whether k has its reply or is not waited for any more.
func (l *tcpLink) done(k *outCall, now time.Time) bool {
	return l.pending[k.xid] != k || k.over(now)
}

// nextBatch moves the calls at the head of the queue to the batch: one, and further
// ones as long as they are few bytes together.
func (l *tcpLink) nextBatch() {
	n, size := 0, 0
	for _, k := range l.out {
		if size += k.tcp.size; n > 0 && size > batchMax {
			break
		}
		k.tcp.state = callWriting
		n++
	}
	l.batch = append(l.batch, l.out[:n]...)
	l.out = slices.Delete(l.out, 0, n)
}

// gatherBatch collects the messages of a new batch.
func (l *tcpLink) gatherBatch() {
	for _, k := range l.batch {
		l.gather.message(&k.tcp.mark, &k.enc)
	}
	l.gather.begin()
	l.moved = time.Now()
	for _, k := range l.batch {
		k.sentAt(l.moved)
	}
}

// endBatch returns the batch's calls to their goroutines.
func (l *tcpLink) endBatch() {
	if len(l.batch) == 0 {
		return
	}
	l.gather.reset()
	for _, k := range l.batch {
		k.tcp.state = callIdle
	}
	l.batch = forget(l.batch)
	l.wrote.Broadcast()
}

// leave waits until nobody writes k any more, for its memory goes back to the
// caller. A reply may come before the writer has noticed that it is done.
func (l *tcpLink) leave(k *outCall) {
	if l.ended(k) {
		<-k.tcp.turn
		l.write(k)
	}
}

// ended waits until no other goroutine writes k. It reports whether k has become the writer since
// await ended: the rest of a batch with k, and the queue, must not be lost.
func (l *tcpLink) ended(k *outCall) (writer bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.tcp.state == callQueued {
		i := slices.Index(l.out, k)
		l.out = slices.Delete(l.out, i, i+1)
		k.tcp.state = callIdle
	}
	for k.tcp.state == callWriting && l.writer != k {
		l.wrote.Wait()
	}
	return l.writer == k
}

// stuckTick is how long a server may take nothing of a call that nobody waits for any more.
const stuckTick = time.Second

func (l *tcpLink) wait() { l.nc.SetWriteDeadline(time.Now().Add(min(stuckTick, l.limit))) }

// goOn bounds the wait for a server that takes no bytes: RetryTimeout, but no
// longer than a call whose bytes are at stake is waited for. Half a record has
// been sent then, and the connection is of no use any more. A writer whose own
// call is out and done does not go on, but leaves the batch to its callers.
func (l *tcpLink) goOn(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if n > 0 {
		l.moved = now
	}
	if k := l.writer; k.tcp.state == callIdle && l.done(k, now) {
		l.yield = true
		return false
	}
	if n > 0 {
		return true
	}
	for _, k := range l.batch {
		if k.over(now) {
			return false
		}
	}
	return now.Sub(l.moved) < l.limit
}

// over reports whether the wait for k has ended.
func (k *outCall) over(now time.Time) bool {
	return k.tcp.ctx.Err() != nil || !k.until.IsZero() && !now.Before(k.until)
}

// forget empties a list of calls, whose array it keeps.
func forget(list []*outCall) []*outCall {
	clear(list)
	return list[:0]
}
