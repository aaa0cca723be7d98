// The terminal: an alternate screen, unbuffered keys, and all settings restored at the end.

package top

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The control sequences of xterm, supported by all current terminals.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // alternate screen without a cursor
	leaveScreen = plain + "\x1b[?25h\x1b[?1049l"
	topLeft     = "\x1b[H"
	eraseLine   = "\x1b[K" // from the cursor to the line's end
	eraseScreen = "\x1b[J"
)

// A terminal is the terminal that the screen is shown on.
type terminal struct {
	// Set once.
	in, out *os.File
	before  *unix.Termios // the settings to restore
	keys    chan byte     // closed after the last key
	done    chan struct{} // closed by close
	wake    [2]int        // a pipe whose closing ends readKeys
	reader  sync.WaitGroup
}

// openTerminal prepares a terminal and starts to read keys.
func openTerminal(in, out *os.File) (*terminal, error) {
	t := &terminal{in: in, out: out, keys: make(chan byte), done: make(chan struct{})}
	var err error
	if t.before, err = unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err != nil {
		return nil, err
	}
	if err := unix.Pipe2(t.wake[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := t.enter(); err != nil {
		unix.Close(t.wake[0])
		unix.Close(t.wake[1])
		return nil, err
	}
	t.reader.Go(t.readKeys)
	return t, nil
}

// enter makes the terminal pass keys unbuffered and without echo. Ctrl-C and Ctrl-Z remain signals.
func (t *terminal) enter() error {
	as := *t.before
	as.Lflag &^= unix.ICANON | unix.ECHO
	as.Cc[unix.VMIN], as.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &as); err != nil {
		return err
	}
	_, err := t.out.WriteString(enterScreen)
	return err
}

// leave restores the terminal.
func (t *terminal) leave() {
	_, _ = t.out.WriteString(leaveScreen)
	_ = unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, t.before)
}

// close stops reading keys and restores the terminal.
func (t *terminal) close() {
	close(t.done)
	unix.Close(t.wake[1])
	t.reader.Wait()
	unix.Close(t.wake[0])
	t.leave()
}

// readKeys sends keys until close.
func (t *terminal) readKeys() {
	defer close(t.keys)
	var b [64]byte
	var sequence escape
	for {
		fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}, {Fd: int32(t.wake[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil || fds[1].Revents != 0 {
			return
		}
		n, err := unix.Read(int(t.in.Fd()), b[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 { // the terminal is gone
			return
		}
		for _, key := range b[:n] {
			if !sequence.key(key) {
				continue
			}
			select {
			case t.keys <- key:
			case <-t.done:
				return
			}
		}
	}
}

// size returns the screen's size, or the smallest usual size if the terminal has no size.
func (t *terminal) size() (width, height int) {
	w, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}
