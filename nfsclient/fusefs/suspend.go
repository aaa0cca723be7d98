// Suspend of the machine: caches age meanwhile although their clocks stand still.

package fusefs

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sleepMin is the shortest suspend that matters; less is imprecision between two clocks.
const sleepMin = 100 * time.Millisecond

// A sleepWatch calls slept after each suspend of the machine. Go's monotonic clock, FUSE's kernel
// timeouts and all timers stand still during suspend. This is right for call timeouts, because the
// mount could not receive replies meanwhile, but wrong for caches.
type sleepWatch struct {
	// set once
	wake   func() error         // returns after each change of the machine's clock, or fails
	offset func() time.Duration // lead of the clock that counts suspends over the monotonic clock
	slept  func(time.Duration)
}

// run returns when wake fails.
func (w *sleepWatch) run() {
	last := w.offset()
	for w.wake() == nil {
		now := w.offset()
		if d := now - last; d >= sleepMin {
			w.slept(d)
		}
		last = now
	}
}

// sleepOffset returns CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
func sleepOffset() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}

// A clockAlarm reports changes of the machine's clock: settings, and the kernel's change at the end
// of a suspend. A waiting alarm costs nothing.
type clockAlarm struct {
	once sync.Once
	f    *os.File // a distant timer, cancelled by each change (timerfd_create(2))
}

// newClockAlarm returns an armed alarm, or an error if the kernel lacks timerfd.
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

// arm sets the timer to a time in the far future.
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

// wait returns after the next change, or an error after stop.
func (a *clockAlarm) wait() error {
	var ticks [8]byte
	if _, err := a.f.Read(ticks[:]); err != nil && !errors.Is(err, syscall.ECANCELED) {
		return err
	}
	return a.arm()
}

func (a *clockAlarm) stop() { a.once.Do(func() { a.f.Close() }) }

// watchSleep makes the caches age after each suspend until stop is called. If the kernel cannot
// report clock changes, caches do not age.
func (f *fileSystem) watchSleep() (stop func()) {
	alarm, err := newClockAlarm()
	if err != nil {
		return func() {}
	}
	var wg sync.WaitGroup
	w := sleepWatch{wake: alarm.wait, offset: sleepOffset, slept: f.ageCaches}
	wg.Go(w.run)
	return func() { alarm.stop(); wg.Wait() }
}

// ageCaches ages all cached data by d, and makes the kernel ask again for data that is now too old.
func (f *fileSystem) ageCaches(d time.Duration) {
	for _, n := range f.table.all() {
		n.mu.Lock()
		n.sent, n.fetched = n.sent.Add(-d), n.fetched.Add(-d)
		old := n.ttl(time.Now()) <= 0
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

// all returns the present nodes.
func (t *table) all() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*node, 0, len(t.byID))
	for _, n := range t.byID {
		list = append(list, n)
	}
	return list
}
