// Overdue calls: calls that have waited too long for a worker.

package transport

import "time"

// watchQueues schedules checks of the queues as long as calls wait. The caller holds mu.
func (p *workerPool) watchQueues() {
	if p.watching || p.closed {
		return
	}
	p.watching = true
	if p.watch == nil {
		p.watch = time.AfterFunc(queueWait/3, p.look)
	} else {
		p.watch.Reset(queueWait / 3)
	}
}

// look ends overdue calls.
func (p *workerPool) look() {
	p.mu.Lock()
	p.watching = false
	if p.closed {
		p.mu.Unlock()
		return
	}
	now := time.Now()
	var late []*Call
	var say []func()
	for i := len(p.waiting) - 1; i >= 0; i-- {
		l := p.waiting[i]
		if now.Sub(l.since) < queueWait {
			continue
		}
		list := p.takeAll(l, func(c *Call) bool { return c.proc.Busy != nil })
		if list == nil {
			continue
		}
		lane := l.share.lane
		l.overdue, l.overdueAt = true, lane.ended
		late = append(late, list)
		name, inside, running := lane.name, int(lane.inside.Load()), lane.running
		say = append(say, func() { p.stalled(name, inside, running) })
	}
	if len(p.waiting) > 0 {
		p.watchQueues()
	}
	p.wg.Add(len(late))
	p.mu.Unlock()
	for i, list := range late {
		say[i]()
		go p.shedLoop(list) // in its own goroutine, because its client may read replies slowly
	}
}

// shedLoop ends a list of one connection's calls.
func (p *workerPool) shedLoop(list *Call) {
	defer p.wg.Done()
	for list != nil {
		c := list
		list, c.next = c.next, nil
		if c.turn != nil {
			c.turn <- false
			continue
		}
		p.shed(c)
	}
}

// withdraw ends an ended connection's waiting calls. Later calls of Call.Busy do not wait.
func (p *workerPool) withdraw(conn *connQueues) {
	p.mu.Lock()
	conn.withdrawn = true
	var list []*Call
	for _, l := range conn.byLane {
		if l == nil || l.head == nil {
			continue
		}
		for c := p.takeAll(l, func(*Call) bool { return true }); c != nil; {
			next := c.next
			c.next = nil
			list = append(list, c)
			c = next
		}
	}
	p.mu.Unlock()
	for _, c := range list {
		if c.turn != nil {
			c.turn <- false
			continue
		}
		p.run(c) // run notices the connection's end
	}
}

// join and leave register and unregister a connection.

func (p *workerPool) join(conn *connQueues, key clientKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.join(conn, key)
}

func (p *workerPool) leave(conn *connQueues) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.leave(conn)
}
