// The ticker: old data is sent, committed or dropped.

package datapath

import (
	"time"
)

// arm sets the ticker, which runs only while some File has aging data.
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

// tick ages all Files every FlushAfter, so data waits at most two FlushAfter.
func (e *Engine) tick() {
	e.ticking.Store(false)
	now := time.Now()
	e.each(func(f *File) {
		f.mu.Lock()
		f.age(now.Add(-e.cfg.FlushAfter))
		f.unlock()
	})
}

// age sends written data if the oldest is from before, and commits it afterwards. It drops unread
// read-ahead of that age.
func (f *File) age(before time.Time) {
	if len(f.ext) > 0 && !f.since.After(before) {
		f.push(f.seq)
		f.commits.wanted = f.bytes[dirty] == 0 && f.commits.cur.some
	}
	f.dropOld(before)
	f.noteAge()
	f.progress()
}
