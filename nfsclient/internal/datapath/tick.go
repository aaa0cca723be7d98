// The ticker: data that has grown old is sent, committed, or forgotten.

package datapath

import (
	"time"
)

// arm sets the ticker. It runs only while some File has something that grows old.
func (e *Engine) arm() {
	if e.ticking.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.ticking.Load() {
		return
	}
	e.ticking.Store(true)
	if e.ticker == nil {
		e.ticker = time.AfterFunc(e.cfg.FlushAfter, e.tick)
	} else {
		e.ticker.Reset(e.cfg.FlushAfter)
	}
}

// tick looks after all Files once in FlushAfter. What is that old then is at most twice as old.
func (e *Engine) tick() {
	e.ticking.Store(false)
	now := time.Now()
	e.each(func(f *File) {
		f.mu.Lock()
		f.age(now.Add(-e.cfg.FlushAfter))
		f.unlock()
	})
}

// age has written data sent whose oldest is of the time before, and then committed, and
// forgets what was read ahead before and that nobody has come for.
func (f *File) age(before time.Time) {
	if len(f.ext) > 0 && !f.since.After(before) {
		f.push(f.seq)
		f.commits.wanted = f.bytes[dirty] == 0 && f.commits.cur.some
	}
	f.dropOld(before)
	f.note()
	f.progress()
}
