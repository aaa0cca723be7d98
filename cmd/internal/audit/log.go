// The audit log: a bounded queue of records, and the one goroutine that writes them to the file.

// Package audit keeps a record of all changes of names and attributes in a file, one line of JSON for each.
//
// Records are written in the order in which they come, as soon as there are any, by one goroutine. Calls do not wait for the file:
// what comes while it is slow, or its disk full, is kept up to queueSize bytes. What comes then is counted and lost, until
// the queue has been handed to the writer; a record of the loss stands where the lost ones would. A write that failed is
// tried again each retryAfter, and goes on where it ended, so that no line is torn.
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
	queueSize  = 4 << 20
	retryAfter = time.Second
	complain   = time.Minute     // how often the log is told of records lost and of a write that fails
	swapWait   = 5 * time.Second // for the old file to take what it is owed
)

// A sink is what the log needs of an *os.File.
type sink interface {
	io.WriteCloser
	Sync() error
}

// A Log is an audit log. It implements nfsserver.Auditor. All methods may be called at once.
type Log struct {
	// Set once.
	path string
	size int           // of the queue
	swap time.Duration // how long Reopen waits
	wake chan struct{} // records are there
	kick chan struct{} // a file is to be used, or the log to end
	quit chan struct{} // closed: what is not written stays so
	done chan struct{} // closed by the writer as it ends

	lines   sync.Pool    // of *[]byte, in which records are made
	waiting atomic.Int64 // records taken and not written yet

	mu      sync.Mutex    // guards all below
	pending []byte        // whole lines for the writer
	lost    uint64        // since the writer last took pending; unless 0, no more are taken
	next    *os.File      // to be used from now on
	torn    bool          // its last line was cut off
	swapped chan struct{} // closed when next is
	closing bool

	// The writer's.
	file    sink
	out     []byte    // whole lines, of which those before off are in the file
	off     int       // bytes
	told    time.Time // of a failure
	toldOff time.Time // of a loss
}

// Open opens the log's file, which is made with mode 0600, and starts to write. A symbolic link, and what is no regular file, is refused.
func Open(path string) (*Log, error) {
	f, torn, err := openFile(path)
	if err != nil {
		return nil, err
	}
	l := start(path, f, queueSize)
	if torn {
		l.take([]byte{'\n'})
	}
	return l, nil
}

func start(path string, f sink, size int) *Log {
	l := &Log{path: path, size: size, swap: swapWait, file: f, wake: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
	l.lines.New = func() any { return new([]byte) }
	go l.run()
	return l
}

// openFile opens the file for records after those that it has. torn: the last of these was cut off, as by a crash.
func openFile(path string) (f *os.File, torn bool, err error) {
	// Not O_WRONLY: the last byte is read. O_NONBLOCK: a FIFO would have us wait for its reader.
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
	l.take(*b)
	l.lines.Put(b)
}

// take puts a line into the queue, if it has room.
func (l *Log) take(b []byte) {
	l.mu.Lock()
	if l.lost > 0 || len(l.pending)+len(b) > l.size {
		l.lost++
	} else {
		l.pending = append(l.pending, b...)
		l.waiting.Add(1)
	}
	l.mu.Unlock()
	poke(l.wake)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Reopen opens the file again, as after it was renamed: records of calls that end from now on are in the new one. On an error the
// log goes on with the file that it has.
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
	poke(l.kick)
	select {
	case <-done:
		return nil
	case <-time.After(l.swap):
		return fmt.Errorf("audit file %s: its disk does not answer; the new file is used once it does", l.path)
	}
}

// Close writes all there is, and to stable storage. It says how much it could not write until ctx ends.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	poke(l.kick)
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

// run is the writer.
func (l *Log) run() {
	defer close(l.done)
	for {
		ending := l.turn()
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

// turn takes what there is to write, once the last was, and the file to use; ending: and no more will come.
func (l *Log) turn() (ending bool) {
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
		l.tell(&l.toldOff, "audit file %s: the disk is too slow, or full: lost records: %d", l.path, lost)
	}
	if next != nil {
		old := l.replace(next, torn)
		close(swapped) // who waits has what was asked for; stable storage may take its time
		if old != nil {
			l.release(old)
		}
	}
	return ending
}

// replace has records go to another file; what was queued before goes to the old one, as far as that takes it. The old one is to be
// released, unless it is nil: the file is the same.
func (l *Log) replace(next *os.File, torn bool) (old sink) {
	if same(l.file, next) { // and what it has of a line is not to be written again
		next.Close()
		return nil
	}
	if l.off == 0 && len(l.out) > 0 {
		_ = l.write()
	}
	// A line of which the old file has a part is written whole to the new one.
	l.off = bytes.LastIndexByte(l.out[:l.off], '\n') + 1
	old, l.file = l.file, next
	if torn {
		_, _ = next.Write([]byte{'\n'}) // if the disk is full, two lines of the new file are one
	}
	return old
}

// same reports whether two open files are one.
func same(a sink, b *os.File) bool {
	f, ok := a.(*os.File)
	if !ok {
		return false
	}
	x, err := f.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// write writes what it can of out.
func (l *Log) write() error {
	n, err := l.file.Write(l.out[l.off:])
	l.waiting.Add(-int64(bytes.Count(l.out[l.off:l.off+n], []byte{'\n'})))
	l.off += n
	return err
}

// pause waits after a write that failed; false: the log is to end.
func (l *Log) pause(err error) bool {
	l.tell(&l.told, "audit file %s: %v: records are kept, and written when that goes", l.path, err)
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

// release brings a file to stable storage and closes it.
func (l *Log) release(f sink) {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		l.tell(&l.told, "audit file %s: %v", l.path, err)
	}
}

// tell writes to the log, unless it did so lately.
func (l *Log) tell(last *time.Time, format string, args ...any) {
	if now := time.Now(); last.IsZero() || now.Sub(*last) >= complain {
		*last = now
		logrus.Errorf(format, args...)
	}
}
