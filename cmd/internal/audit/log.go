// The audit log: a bounded queue of records, and one goroutine that writes them to the file.

// Package audit records every change of names and attributes in a file, one line of JSON each.
//
// One goroutine writes the records in the order of their arrival. Calls never wait for the file: if
// it is slow, or its disk full, up to queueSize bytes are queued. Later records are counted and
// lost, until the writer has taken the queue; one record then stands for the lost ones. A failed
// write is retried every retryAfter and continues where it ended, so no line is torn.
package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

const (
	queueSize   = 4 << 20
	retryAfter  = time.Second
	logInterval = time.Minute     // between log lines about lost records, or about failing writes
	reopenWait  = 5 * time.Second // lets the old file take its queued records
)

// A sink is the part of *os.File that the log uses.
type sink interface {
	io.WriteCloser
	Sync() error
}

// A Log is an audit log. It implements nfsserver.Auditor. Its methods are safe for concurrent use.
type Log struct {
	// Set once.
	path       string
	size       int           // the queue's size, in bytes
	reopenWait time.Duration // limit of Reopen's wait
	wake       chan struct{} // signals the writer: records are queued
	kick       chan struct{} // signals the writer: a new file, or the end
	quit       chan struct{} // closed: unwritten records are dropped
	done       chan struct{} // closed when the writer returns

	lines   sync.Pool    // of *[]byte, buffers for new records
	waiting atomic.Int64 // queued records, not yet written

	mu      sync.Mutex    // guards the fields below
	pending []byte        // whole lines for the writer
	lost    uint64        // records since the writer took pending; while not 0, new ones are lost
	next    *os.File      // the file to replace file, or nil
	torn    bool          // next ends with an incomplete line
	swapped chan struct{} // closed once next is in use
	closing bool

	// Owned by the writer goroutine.
	file          sink
	out           []byte    // whole lines; the first off bytes are in the file
	off           int       // bytes
	failureLogged time.Time // time of the last line about a failure
	lossLogged    time.Time // time of the last line about a loss
}

// Open opens the log's file, creating it with mode 0600, and starts the writer. It refuses a
// symbolic link and anything but a regular file.
func Open(path string) (*Log, error) {
	f, torn, err := openFile(path)
	if err != nil {
		return nil, err
	}
	l := start(path, f, queueSize)
	if torn {
		l.enqueue([]byte{'\n'})
	}
	return l, nil
}

func start(path string, f sink, size int) *Log {
	l := &Log{path: path, size: size, reopenWait: reopenWait, file: f, wake: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
	l.lines.New = func() any { return new([]byte) }
	go l.run()
	return l
}

// openFile opens the file for appending. torn reports an incomplete last record, for example after
// a crash.
func openFile(path string) (f *os.File, torn bool, err error) {
	// O_RDWR, because the last byte is read. O_NONBLOCK, because opening a FIFO would wait for its
	// reader.
	f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, false, fmt.Errorf("audit file %s is a symbolic link, or leads over too many: name the file itself", path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, fmt.Errorf("audit file %s cannot be opened: make its directory first, with mkdir -p -m 700", path)
	}
	if err != nil {
		var why *os.PathError
		if errors.As(err, &why) {
			err = why.Err
		}
		return nil, false, fmt.Errorf("audit file %s cannot be opened: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("audit file %s is not a regular file: name another", path)
	}
	if err == nil && info.Size() > 0 {
		var last [1]byte
		_, err = f.ReadAt(last[:], info.Size()-1)
		torn = last[0] != '\n'
	}
	if err != nil {
		f.Close()
		return nil, false, err
	}
	return f, torn, nil
}

// Change implements nfsserver.Auditor.
func (l *Log) Change(c *nfsserver.Change) {
	b := l.lines.Get().(*[]byte)
	*b = appendChange((*b)[:0], c)
	l.enqueue(*b)
	l.lines.Put(b)
}

// enqueue queues a line if the queue has room.
func (l *Log) enqueue(b []byte) {
	l.mu.Lock()
	if l.lost > 0 || len(l.pending)+len(b) > l.size {
		l.lost++
	} else {
		l.pending = append(l.pending, b...)
		l.waiting.Add(1)
	}
	l.mu.Unlock()
	signal(l.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Reopen opens the path again, for example after the file was renamed. Records of calls that end
// later go to the new file. After an error the log keeps its present file.
func (l *Log) Reopen() error {
	f, torn, err := openFile(l.path)
	if err != nil {
		return fmt.Errorf("%w; records go on to the file that was opened before", err)
	}
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return f.Close()
	}
	unused, done := l.next, l.swapped
	if done == nil {
		done = make(chan struct{})
	}
	l.next, l.torn, l.swapped = f, torn, done
	l.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
	signal(l.kick)
	select {
	case <-done:
		return nil
	case <-time.After(l.reopenWait):
		return fmt.Errorf("audit file %s: its disk does not answer; the new file is used once it does", l.path)
	}
}

// Close writes all queued records to stable storage. If ctx ends first, its error says how many are
// missing.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	signal(l.kick)
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
	}
	close(l.quit)
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("audit file %s: records that are not written: %d", l.path, uint64(l.waiting.Load())+l.lost)
}

// run writes queued records until the log ends, in the writer goroutine.
func (l *Log) run() {
	defer close(l.done)
	for {
		ending := l.nextBatch()
		if l.off < len(l.out) {
			if err := l.write(); err != nil && !l.pause(err) {
				return
			}
			continue
		}
		if ending {
			l.release(l.file)
			return
		}
		select {
		case <-l.wake:
		case <-l.kick:
		}
	}
}

// nextBatch takes the queued lines, if all earlier lines are written, and the next file. ending
// reports that no more lines will come.
func (l *Log) nextBatch() (ending bool) {
	l.mu.Lock()
	next, torn, swapped := l.next, l.torn, l.swapped
	l.next, l.swapped = nil, nil
	var lost uint64
	if l.off == len(l.out) {
		l.out, l.pending, l.off = l.pending, l.out[:0], 0
		if lost, l.lost = l.lost, 0; lost > 0 {
			l.pending = appendLoss(l.pending, time.Now(), lost)
			l.waiting.Add(1)
		}
	}
	ending = l.closing && len(l.pending) == 0
	l.mu.Unlock()
	if lost > 0 {
		l.logRarely(&l.lossLogged, "audit file %s: the disk is too slow, or full: lost records: %d", l.path, lost)
	}
	if next != nil {
		old := l.replace(next, torn)
		close(swapped) // ends the wait of Reopen; the sync of the old file may take longer
		if old != nil {
			l.release(old)
		}
	}
	return ending
}

// replace directs records to another file. Earlier records go to the old file as far as possible.
// The caller releases old; a nil old means that both files are the same.
func (l *Log) replace(next *os.File, torn bool) (old sink) {
	if same(l.file, next) { // the rest of a started line must not be written twice
		next.Close()
		return nil
	}
	if l.off == 0 && len(l.out) > 0 {
		_ = l.write()
	}
	// a line that is partly in the old file is written whole to the new one
	l.off = bytes.LastIndexByte(l.out[:l.off], '\n') + 1
	old, l.file = l.file, next
	if torn {
		// if this fails, as on a full disk, two lines in the new file are joined
		_, _ = next.Write([]byte{'\n'})
	}
	return old
}

// same reports whether both open files are one file.
func same(a sink, b *os.File) bool {
	f, ok := a.(*os.File)
	if !ok {
		return false
	}
	x, err := f.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// write writes as much of out as the file takes.
func (l *Log) write() error {
	n, err := l.file.Write(l.out[l.off:])
	l.waiting.Add(-int64(bytes.Count(l.out[l.off:l.off+n], []byte{'\n'})))
	l.off += n
	return err
}

// pause waits after a failed write. It returns false if the log must end.
func (l *Log) pause(err error) bool {
	l.logRarely(&l.failureLogged, "audit file %s: %v: records are kept, and written when that goes", l.path, err)
	t := time.NewTimer(retryAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.kick:
	case <-l.quit:
		return false
	}
	return true
}

// release syncs and closes a file.
func (l *Log) release(f sink) {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		l.logRarely(&l.failureLogged, "audit file %s: %v", l.path, err)
	}
}

// logRarely logs an error, at most once per logInterval.
func (l *Log) logRarely(last *time.Time, format string, args ...any) {
	if now := time.Now(); last.IsZero() || now.Sub(*last) >= logInterval {
		*last = now
		logrus.Errorf(format, args...)
	}
}
