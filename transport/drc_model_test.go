// The duplicate request cache under random schedules: clients with equal XIDs, cut and closed
// connections, copies.

package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// The model program's procedures.
const (
	mOnce  = 1 + iota // not idempotent
	mFails            // not idempotent, and sometimes fails
	mAlone            // idempotent, but must not run beside its own copy
)

// A drcModel knows each connection's call. The server has no such information.
type drcModel struct {
	t *testing.T
	s *Server

	mu      sync.Mutex // guards all
	rand    *rand.Rand
	calls   int             // calls made so far
	by      map[carrier]int // a connection's call
	runs    map[int]int     // by call: number of executions
	running map[int]int     // by call: number of running executions
	results []int           // by result: the call with that result
}

func (m *drcModel) upTo(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rand.IntN(n)
}

// pause takes simulated time similar to a call's duration.
func (m *drcModel) pause() { time.Sleep(time.Duration(m.upTo(60)) * time.Millisecond) }

func (m *drcModel) run(c *Call) error {
	c.Args.Uint32()
	m.mu.Lock()
	id := m.by[c.via]
	if m.running[id]++; m.running[id] > 1 {
		m.t.Errorf("call %d runs beside a copy of itself", id)
	}
	m.mu.Unlock()
	m.pause()
	fails := c.header.Proc == mFails && m.upTo(3) == 0
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[id]--
	if fails {
		return ErrSystem
	}
	m.runs[id]++
	m.results = append(m.results, id)
	c.Res.Uint32(uint32(len(m.results) - 1))
	return nil
}

// modelCall returns a call by a user.
func modelCall(xid, proc, user uint32) chunks.Message {
	cred := Cred{Flavor: oncrpc.FlavorSys, UID: user}
	h := oncrpc.CallHeader{XID: xid, Prog: testProg, Vers: testVers, Proc: proc, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: cred.body()}}
	var e xdr.Encoder
	h.EncodeXDR(&e)
	e.Uint32(1)
	return chunks.Message{Stream: e.Bytes()}
}

// connect returns a client's new connection.
func (m *drcModel) connect() *tape {
	k := newTape("10.0.0.1")
	k.ctx, k.lost = context.WithCancel(m.t.Context())
	return k
}

// send makes a connection carry a call.
func (m *drcModel) send(k *tape, id int, call chunks.Message) {
	m.mu.Lock()
	m.by[k] = id
	m.mu.Unlock()
	k.start(m.s, call)
}

// client makes calls one by one, as a user. It counts XIDs from 1, like all clients, and restarts
// at 1 as another process after closing its connection. With cuts it loses connections, and repeats
// its call over the next one.
func (m *drcModel) client(user uint32, cuts bool, calls int) {
	k, xid := m.connect(), uint32(0)
	for range calls {
		m.mu.Lock()
		m.calls++
		id := m.calls
		m.mu.Unlock()
		if !cuts && m.upTo(6) == 0 {
			k.peer.origin.ended(fateClosed)
			k, xid = m.connect(), 0
		}
		xid++
		proc := 1 + uint32(m.upTo(3))
		call := modelCall(xid, proc, user)
		for cuts && m.upTo(3) > 0 {
			last := k
			k = m.connect()
			if m.upTo(3) == 0 { // the server reads the call after its copy
				last.cut()
				go func() {
					m.pause()
					m.send(last, id, call)
				}()
				continue
			}
			m.send(last, id, call)
			m.pause()
			last.cut()
			if m.upTo(2) == 0 {
				last.lost()
			}
		}
		m.answered(k, id, xid, proc, call)
	}
}

// answered makes the call over a live connection, sometimes repeatedly, and checks the reply.
func (m *drcModel) answered(k *tape, id int, xid, proc uint32, call chunks.Message) {
	m.send(k, id, call)
	copies := 1
	if m.upTo(4) == 0 {
		m.pause()
		m.send(k, id, call)
		copies++
	}
	replies := 0
	for range copies {
		end := <-k.ends
		if end.how != "reply" {
			continue
		}
		replies++
		if stat := binary.BigEndian.Uint32(end.reply[20:]); stat != 0 {
			if proc != mFails {
				m.t.Errorf("call %d with XID %d: status %d, want 0", id, xid, stat)
			}
			continue
		}
		m.mu.Lock()
		if of := m.results[binary.BigEndian.Uint32(end.reply[24:])]; of != id {
			m.t.Errorf("call %d with XID %d has the reply of call %d", id, xid, of)
		}
		m.mu.Unlock()
	}
	if replies == 0 {
		m.t.Errorf("call %d with XID %d has no reply over a live connection", id, xid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.runs[id]; n != 1 && proc == mOnce || n > 1 && proc == mFails {
		m.t.Errorf("call %d of procedure %d with XID %d was done %d times, want 1", id, proc, xid, n)
	}
}

// TestRepeatedCallsModel: each call is executed once, and its client gets the reply, however
// connections end. No other client gets it, even with equal XIDs, users and bytes.
func TestRepeatedCallsModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &drcModel{t: t, rand: rand.New(rand.NewPCG(seed, 1)), by: map[carrier]int{}, runs: map[int]int{}, running: map[int]int{}}
				m.s = NewServer(ServerConfig{}, &Program{Name: "MODEL", Number: testProg, Version: testVers, Procs: []Procedure{
					{Name: "NULL", Idempotent: true, Run: func(*Call) error { return nil }},
					mOnce: {Name: "ONCE", Run: m.run}, mFails: {Name: "FAILS", Run: m.run},
					mAlone: {Name: "ALONE", Idempotent: true, NoOverlap: true, Run: m.run},
				}})
				var clients sync.WaitGroup
				for range 4 { // these clients differ only in their connections
					clients.Go(func() { m.client(1, false, 40) })
				}
				for user := range uint32(4) {
					clients.Go(func() { m.client(2+user, true, 40) })
				}
				clients.Wait()
				time.Sleep(2 * drcAge)
				synctest.Wait()
				d := m.s.drc
				must.Equal(t, "len(d.entries)", len(d.entries), 0)
				must.Equal(t, "d.all.size", d.all.size, 0)
				must.Equal(t, "len(d.all.parts)", len(d.all.parts), 0)
				must.Equal(t, "d.running.count()", d.running.count(), 0)
				if err := m.s.Shutdown(t.Context()); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			})
		})
	}
}
