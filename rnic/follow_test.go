// A CQ handler whose turn another goroutine takes over, in simulated time.

package rnic

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A turnModel is a CQ with handlers that wait, and loops of a provider that run them.
type turnModel struct {
	t     *testing.T
	q     *ProviderQP
	cq    *CQ
	rnd   *rand.Rand // guarded by mu
	loops sync.WaitGroup

	mu      sync.Mutex
	owners  int // goroutines that have the turn
	handled []uint64
	next    uint64 // id of the next completion
	taken   map[[2]int32]bool
	inside  []int // loops that run, by number

	// owned by the goroutine with the turn, without a lock
	batch [4]WC
	i, n  int
}

// some returns 0 to 4 ms in whole milliseconds, so that events often coincide.
func (m *turnModel) some() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Millisecond * time.Duration(m.rnd.IntN(1+m.rnd.IntN(5)))
}

func (m *turnModel) coin(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rnd.IntN(n) == 0
}

// owns adds n to the goroutines that use the turn: 1 when one begins, -1 when one stops.
func (m *turnModel) owns(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owners += n; m.owners < 0 || m.owners > 1 {
		m.t.Errorf("%d goroutines have the turn", m.owners)
	}
}

// handle handles completions, as the CQ's handler. After Follow another goroutine continues in the
// middle of the batch.
func (m *turnModel) handle() (leads bool) {
	m.owns(1)
	for {
		for m.i < m.n {
			id := m.batch[m.i].ID
			m.i++
			m.mu.Lock()
			m.handled = append(m.handled, id)
			m.mu.Unlock()
			if m.cq.CanFollow() && m.coin(3) {
				m.owns(-1)
				go m.cq.Follow()
				time.Sleep(m.some()) // the handler waits, or not
				return false
			}
			time.Sleep(m.some())
		}
		m.i, m.n = 0, m.cq.Poll(m.batch[:])
		if m.n == 0 {
			m.owns(-1)
			return true
		}
	}
}

// loop runs loop k of the provider: rounds times it adds completions and runs the handler. After
// Follow another goroutine continues the loop.
func (m *turnModel) loop(k, rounds int, follows bool) {
	m.enter(k, 1)
	for ; rounds > 0; rounds-- {
		time.Sleep(m.some())
		for range 1 + int(m.some()/time.Millisecond) {
			m.mu.Lock()
			m.next++
			wc := WC{ID: m.next}
			m.mu.Unlock()
			m.q.CompleteRecv(wc)
		}
		left := rounds - 1
		var follow func()
		if follows {
			follow = func() { m.loop(k, left, follows) }
		}
		m.enter(k, -1)
		if _, leads := m.q.Lead(follow); !leads {
			return
		}
		m.enter(k, 1)
	}
	m.enter(k, -1)
	m.loops.Done()
}

// enter adds n to the goroutines that are in loop k.
func (m *turnModel) enter(k, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inside[k] += n; m.inside[k] < 0 || m.inside[k] > 1 {
		m.t.Errorf("%d goroutines are in loop %d", m.inside[k], k)
	}
}

// TestTurnModel: in each random schedule at most one goroutine has the turn, at most one runs each
// loop, and each completion is handled once.
func TestTurnModel(t *testing.T) {
	taken := map[[2]int32]bool{}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			_, cq, qp, ep := stillQP(t)
			m := &turnModel{t: t, q: ep.q, cq: cq, rnd: rand.New(rand.NewPCG(seed, 0)), taken: taken, inside: make([]int, 3)}
			cq.onTurn = func(from, to int32) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.taken[[2]int32{from, to}] = true
			}
			cq.SetLeader(m.handle)
			for k := range m.inside {
				m.loops.Add(1)
				go m.loop(k, 10, k > 0) // loop 0 cannot be followed
			}
			m.loops.Wait()
			synctest.Wait()
			time.Sleep(time.Second)
			slices.Sort(m.handled)
			if n := len(m.handled); uint64(n) != m.next || len(slices.Compact(m.handled)) != n {
				t.Errorf("%d of %d completions were handled", n, m.next)
			}
			if cq.handling() {
				t.Error("the turn has not ended")
			}
			qp.Close()
		})
		if t.Failed() {
			t.Fatalf("schedule %d", seed)
		}
	}
	for arrow := range taken {
		if !slices.Contains(turnNext[arrow[0]], arrow[1]) {
			t.Errorf("turn %d becomes %d, which is not drawn", arrow[0], arrow[1])
		}
	}
	for from, next := range turnNext {
		for _, to := range next {
			if !taken[[2]int32{int32(from), to}] {
				t.Errorf("turn %d never becomes %d, which is drawn", from, to)
			}
		}
	}
}

// TestNoFollower: a handler cannot be followed on a goroutine that has other work, nor where the QP
// has two CQs.
func TestNoFollower(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	defer qp.Close()
	var can []bool
	cq.SetHandler(func() {
		var wc [1]WC
		for cq.Poll(wc[:]) > 0 {
			can = append(can, cq.CanFollow())
		}
	})
	ep.q.CompleteRecv(WC{})
	ep.q.Notify()
	ep.q.CompleteRecv(WC{})
	ep.q.NotifySends()
	ep.q.CompleteRecv(WC{})
	ep.q.Lead(func() {})
	other, err := qp.pd.CreateQP(QPConfig{SendCQ: qp.dev.NewCQ(1), RecvCQ: cq, SQDepth: 1, RQDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	EndpointOf(other).(*inertEndpoint).q.CompleteRecv(WC{})
	EndpointOf(other).(*inertEndpoint).q.Lead(func() {})
	if want := []bool{false, false, true, false}; !slices.Equal(can, want) {
		t.Errorf("can be followed: %v, want %v", can, want)
	}
}

// TestFollowerOfItsOwnTurn: a follower continues the work of the goroutine that it follows. As soon
// as the follower's turn has ended, another goroutine has the next turn.
func TestFollowerOfItsOwnTurn(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	defer qp.Close()
	moves := true
	cq.SetLeader(func() bool {
		var wc [1]WC
		for cq.Poll(wc[:]) > 0 {
			if moves {
				moves = false
				return false
			}
		}
		return true
	})
	var followed []int
	ep.q.CompleteRecv(WC{})
	ep.q.Lead(func() { followed = append(followed, 1) })
	next := true
	cq.onTurn = func(_, to int32) {
		if to == handlerIdle && next {
			next = false
			ep.q.CompleteRecv(WC{})
			ep.q.Lead(func() { followed = append(followed, 2) })
		}
	}
	if cq.Follow(); !slices.Equal(followed, []int{1}) {
		t.Errorf("the work of %v goes on, want that of 1", followed)
	}
}

// TestSettleWaitsForFollower: the end of a QP waits for the completions of a turn that was taken
// over.
func TestSettleWaitsForFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cq, qp, ep := stillQP(t)
		handled, moved := 0, false
		cq.SetLeader(func() bool {
			var wc [1]WC
			for cq.Poll(wc[:]) > 0 {
				if handled++; !moved {
					moved = true
					time.AfterFunc(time.Second, cq.Follow)
					return false
				}
			}
			return true
		})
		followed := false
		for range 3 {
			ep.q.CompleteRecv(WC{})
		}
		if _, leads := ep.q.Lead(func() { followed = true }); leads {
			t.Error("the caller still leads")
		}
		cq.settle()
		if handled != 3 {
			t.Errorf("%d of 3 completions were handled", handled)
		}
		synctest.Wait()
		if !followed {
			t.Error("the follower has not gone on with the loop")
		}
		qp.Close()
	})
}
