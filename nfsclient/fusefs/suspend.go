// Sleep of the machine: what is cached grows old meanwhile, though the clocks that count it stand
// still.

package fusefs

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sleepLeast is how long a sleep must be to matter; less is the imprecision of two clocks.
const sleepLeast = 100 * time.Millisecond

// A sleepWatch calls slept after each sleep of the machine. Go's monotonic clock, the kernel's
// times for FUSE and all timers stand still while it sleeps, which is right for time-outs of calls:
// the server was not asked meanwhile. Of caches it would be wrong.
type sleepWatch struct {
	// set once
	wake   func() error         // returns after each change of the machine's clock, or fails
	offset func() time.Duration // how far the clock that counts sleep is before the one that does not
	slept  func(time.Duration)
}

// run returns when wake fails.
func (w *sleepWatch) run() {
	last := w.offset()
	for w.wake() == nil {
		now := w.offset()
		if d := now - last; d >= sleepLeast {
			w.slept(d)
		}
		last = now
	}
}

// sleepOffset is CLOCK_BOOTTIME less CLOCK_MONOTONIC.
func sleepOffset() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}

// A clockAlarm tells of changes of the machine's clock: one that is set, and the one that the
// kernel makes at the end of a sleep. It costs nothing while there are none.
type clockAlarm struct {
	once sync.Once
	f    *os.File // a timer far away, cancelled by each change (timerfd_create(2))
}

func newClockAlarm() (*clockAlarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	a := &clockAlarm{f: os.NewFile(uintptr(fd), "timerfd")}
	if err := a.arm(); err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

// arm sets the timer to a time that does not come.
func (a *clockAlarm) arm() error {
	raw, err := a.f.SyscallConn()
	if err != nil {
		return err
	}
	never := unix.ItimerSpec{Value: unix.Timespec{Sec: 1 << 40}}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
	})
	return errors.Join(err, set)
}

// wait returns after the next change, and fails after stop.
func (a *clockAlarm) wait() error {
	var ticks [8]byte
	if _, err := a.f.Read(ticks[:]); err != nil && !errors.Is(err, syscall.ECANCELED) {
		return err
	}
	return a.arm()
}

func (a *clockAlarm) stop() { a.once.Do(func() { a.f.Close() }) }

// watchSleep has the caches grow old by each sleep, until the function that it returns is called.
// Where the kernel does not tell of its clock they are as after a nap.
func (f *fileSystem) watchSleep() (stop func()) {
	alarm, err := newClockAlarm()
	if err != nil {
		return func() {}
	}
	var wg sync.WaitGroup
	w := sleepWatch{wake: alarm.wait, offset: sleepOffset, slept: f.slept}
	wg.Go(w.run)
	return func() { alarm.stop(); wg.Wait() }
}

// slept makes all that is known d older, and has the kernel ask for what is too old now.
func (f *fileSystem) slept(d time.Duration) {
	for _, n := range f.table.all() {
		n.mu.Lock()
		n.sent, n.fetched = n.sent.Add(-d), n.fetched.Add(-d)
		old := n.left(time.Now()) <= 0
		n.mu.Unlock()
		switch {
		case !old:
		case n.isDir():
			f.notices.put(n)
		default:
			f.forgetAttrs(n)
		}
	}
}

// all is the nodes of this moment.
func (t *table) all() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*node, 0, len(t.byID))
	for _, n := range t.byID {
		list = append(list, n)
	}
	return list
}
