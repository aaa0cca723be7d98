// A perftest test's run, from the first message to the last barrier.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// run runs the test, exchanges the results, and returns when both ends are done.
func (p *perf) run(key exchange.Key) (*PerfReport, error) {
	role := p.test.client
	if p.o.server() {
		role = p.test.server
	}
	start := time.Now()
	if err := role(p); err != nil {
		return nil, err
	}
	remote := roce.Identity{Addr: p.remote.GID, QPN: p.remote.QPN}
	took := time.Since(start)
	if p.report.took > 0 {
		took = p.report.took
	}
	p.report.Common = common(p.name, p.o, p.id, remote, took)
	p.report.rates()
	// A server has already received the first barrier's key, which marks the client's end.
	if p.test.figures {
		if err := p.release(key); err != nil {
			return nil, err
		}
		if err := p.swapFigures(); err != nil {
			return nil, err
		}
		if p.o.server() {
			if _, err := p.t.await(p.keyLen()); err != nil {
				return nil, err
			}
		}
	}
	if err := p.release(key); err != nil {
		return nil, err
	}
	if p.t.cm != nil {
		p.leaveByCM()
		return &p.report, nil
	}
	p.finish()
	// Each end sends Done and receives the peer's Done. A lost Done does no harm.
	if err := p.t.send([]byte(exchange.Done)); err == nil {
		_, _ = p.t.receive(len(exchange.Done))
	}
	return &p.report, nil
}

// release completes a barrier. A server has already received the client's half.
func (p *perf) release(key exchange.Key) error {
	if p.o.server() {
		return p.t.send(p.appendKey(key))
	}
	return p.exchangeKeys(key, p.t.await)
}

// swapFigures exchanges the results. A server has no results and reports its client's.
func (p *perf) swapFigures() error {
	ours := exchange.Figures{Size: uint64(p.o.Size), Iterations: uint64(p.o.Iterations), Peak: p.report.Average, Average: p.report.Average, Rate: p.report.Rate}
	if p.o.server() {
		ours = exchange.Figures{}
	}
	var theirs []byte
	for b := exchange.AppendFigures(nil, ours); len(b) > 0; b = b[exchange.FigureLen:] {
		got, err := p.exchangeSetup(b[:exchange.FigureLen])
		if err != nil {
			return err
		}
		theirs = append(theirs, got...)
	}
	f, err := exchange.ParseFigures(theirs)
	if err != nil {
		return err
	}
	if p.o.server() {
		p.report.Average, p.report.Rate, p.report.Messages = f.Average, f.Rate, int(min(f.Iterations, maxIterations))
		p.report.Bytes = f.Size * uint64(p.report.Messages)
	}
	return nil
}

// stream keeps the send queue filled with Sends or Writes until all have completed.
func (p *perf) stream() error {
	wr := rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{p.out}, AH: &p.target}
	if p.test.access != 0 {
		wr.Op, wr.RemoteSTag, wr.RemoteTO = rnic.OpWrite, rnic.STag(p.remote.RKey), p.remote.Addr
	}
	start := time.Now()
	for posted, done := 0, 0; done < p.o.Iterations; done++ {
		for ; posted < p.o.Iterations && posted-done < perfSends; posted++ {
			if err := p.qp.PostSend(wr); err != nil {
				return p.wrap(err)
			}
		}
		if _, err := p.next(); err != nil {
			return fmt.Errorf("after %d of %d messages: %w", done, p.o.Iterations, err)
		}
	}
	p.report.took, p.report.Messages = time.Since(start), p.o.Iterations
	return nil
}

// readEach reads the server's memory with one RDMA Read at a time.
func (p *perf) readEach() error {
	var h bench.Histogram
	wr := rnic.SendWR{Op: rnic.OpRead, MR: p.mr, Length: uint32(p.o.Size), RemoteSTag: rnic.STag(p.remote.RKey), RemoteTO: p.remote.Addr}
	for i := range p.o.Iterations {
		start := time.Now()
		if err := p.qp.PostSend(wr); err != nil {
			return p.wrap(err)
		}
		if _, err := p.next(); err != nil {
			return fmt.Errorf("after %d of %d Reads: %w", i, p.o.Iterations, err)
		}
		h.Add(time.Since(start))
	}
	p.report.latencies(&h)
	return nil
}

// awaitClient waits while the client writes and reads.
func (p *perf) awaitClient() error {
	done, watched := make(chan struct{}), make(chan struct{})
	go func() { // ends the wait when the control connection is lost, which RC does not notice
		defer close(watched)
		select {
		case <-p.qp.Done():
			p.t.Close()
		case <-done:
		}
	}()
	_, err := p.t.await(p.keyLen())
	close(done)
	<-watched // the queue pair's end follows and is no error
	if err != nil {
		return p.wrap(err)
	}
	return nil
}

// lateMessageWait is the wait for messages after the client has sent all, because UC and UD lose
// some.
const lateMessageWait = 2 * time.Second

// drain receives messages until all have arrived, or until the client is done and no message
// arrives any more.
func (p *perf) drain() error {
	over := make(chan error, 1)
	go func() {
		_, err := p.t.await(p.keyLen())
		over <- err
		if err != nil {
			p.stop(err)
			return
		}
		p.limitWaits(lateMessageWait)
	}()
	var first, last time.Time
	n := 0
	for ; n < p.o.Iterations; n++ {
		wc, err := p.next()
		if errors.Is(err, errSilent) && p.o.Service != rnic.RC {
			break
		}
		if err == nil {
			err = p.message(&wc)
		}
		if err == nil {
			err = p.receives(1)
		}
		if err != nil {
			p.t.Close() // ends the goroutine
			<-over
			return fmt.Errorf("after %d of %d messages: %w", n, p.o.Iterations, err)
		}
		if last = time.Now(); n == 0 {
			first = last
		}
	}
	p.report.took, p.report.Messages = last.Sub(first), n
	if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
