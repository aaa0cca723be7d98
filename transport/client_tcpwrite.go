// Writing calls to a TCP connection: choosing the writer, the batches, and handing over.

package transport

import (
	"slices"
	"time"
)

// The first caller that finds no writer becomes the writer. It writes its own call. While waiting
// for its reply it also writes the calls queued by others meanwhile, many small ones in one system
// call, without waking their goroutines. When its reply has come, another caller becomes the writer
// and is notified by turn:
//
//	               enqueued, no writer
//	  (no writer) ───────────────────────────▶ k writes ──┐ own call not out, or reply
//	      ▲                                      │   ▲    │ not there: the next batch
//	      │          queue is empty              │   └────┘
//	      └──────────────────────────────────────┤
//	                                             │ own call out and reply there, or given up:
//	                                             ▼ handOver
//	                                     the next caller writes
//
// A half-written batch can be handed over, too: a caller never waits for other callers' bytes.

// A writeState is an outCall's state in relation to the writer.
type writeState int

const (
	callIdle    writeState = iota // not queued yet, or completely written
	callQueued                    // in out
	callWriting                   // in batch: the writer reads the call's memory
)

// write writes queued calls until the queue is empty or another call is the writer. k is the
// writer; mu is not held.
func (l *tcpClientConn) write(k *outCall) {
	for more, fresh := l.begin(k); more; {
		if fresh {
			l.gatherBatch()
		}
		more, fresh = l.written(k, l.gather.drain(l.rw, l))
	}
}

// begin is next under mu.
func (l *tcpClientConn) begin(k *outCall) (more, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next(k)
}

// written handles the result of writing k's batch, then calls next.
func (l *tcpClientConn) written(k *outCall, err error) (more, fresh bool) {
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

// next reports whether k continues as the writer: with the rest of a batch, or with a fresh batch,
// taken from the queue. The caller holds mu.
func (l *tcpClientConn) next(k *outCall) (more, fresh bool) {
	fresh = len(l.batch) == 0
	switch {
	case l.err != nil, fresh && len(l.out) == 0:
		l.endBatch() // for a batch handed over when the connection ended
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

// handOver makes k the writer. k is queued or in the batch, so its goroutine is in await, where
// turn wakes the goroutine, or in leave, where the condition wrote does.
func (l *tcpClientConn) handOver(k *outCall) {
	l.writer = k
	k.tcp.turn <- struct{}{}
	l.wrote.Broadcast()
}

// done reports whether k has its reply or its caller has given up.
func (l *tcpClientConn) done(k *outCall, now time.Time) bool {
	return l.pending[k.xid] != k || k.over(now)
}

// nextBatch moves calls from the queue's head to the batch: the first call, and more calls while
// the total is small.
func (l *tcpClientConn) nextBatch() {
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

// gatherBatch collects a new batch's messages.
func (l *tcpClientConn) gatherBatch() {
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
func (l *tcpClientConn) endBatch() {
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

// leave waits until no other goroutine writes k, because k's memory goes back to the caller. A
// reply may come before the writer has marked k as written.
func (l *tcpClientConn) leave(k *outCall) {
	if l.awaitWritten(k) {
		<-k.tcp.turn
		l.write(k)
	}
}

// awaitWritten waits until no other goroutine writes k. awaitWritten reports whether k has become
// the writer since await returned: then k must write the rest of the batch and the queue.
func (l *tcpClientConn) awaitWritten(k *outCall) (writer bool) {
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

func (l *tcpClientConn) wait() { l.nc.SetWriteDeadline(time.Now().Add(min(stuckTick, l.limit))) }

// keepWriting bounds the wait for a server that accepts no bytes: by RetryTimeout, and by the
// timeouts of the calls in the batch. After a timeout the connection is useless, because half a
// record has been sent. A writer with its own call written and done stops, and leaves the batch to
// the other callers.
func (l *tcpClientConn) keepWriting(n int64) bool {
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

// forget empties a list of calls and keeps its array.
func forget(list []*outCall) []*outCall {
	clear(list)
	return list[:0]
}
