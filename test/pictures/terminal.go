// The terminal output of nfsrdma top, as a picture of the terminal.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The size of the terminal.
const (
	columns = 104
	rows    = 18
)

// Control sequences written by nfsrdma top. A frame extends from topLeft to eraseScreen, and a line
// may have one attribute.
const (
	topLeft     = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseScreen = "\x1b[J"
	plain       = "\x1b[0m"
	reverse     = "\x1b[7m"
)

// attributes are the possible starts of a line, with their text style.
var attributes = []struct {
	sequence string
	size     size
	color    string
}{
	{"\x1b[1m", monoStrong, "ink"},
	{"\x1b[31m", mono, "bad"},
	{reverse, mono, "card"},
}

// openTerminal returns both ends of a pseudoterminal.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// lastFrame runs a program on a terminal until it has written n frames, ends it, and returns the
// last frame.
func lastFrame(cmd *exec.Cmd, n int) (string, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return "", err
	}
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return "", err
	}
	var all bytes.Buffer
	chunk := make([]byte, 4096)
	for bytes.Count(all.Bytes(), []byte(eraseScreen)) < n {
		m, err := master.Read(chunk)
		all.Write(chunk[:m])
		if err != nil {
			return "", errors.Join(fmt.Errorf("it has written %q", &all), err, cmd.Wait())
		}
	}
	if _, err := io.WriteString(master, "q"); err != nil {
		return "", err
	}
	// The program's final output must be read, because the program would block.
	_, _ = io.Copy(io.Discard, master)
	if err := cmd.Wait(); err != nil {
		return "", err
	}
	frames := strings.Split(all.String(), topLeft)
	frame, _, _ := strings.Cut(frames[n], eraseScreen)
	return frame, nil
}

// terminal draws a frame.
func terminal(name, title, frame string) *drawing {
	// The terminal adds a carriage return to the program's carriage return.
	lines := strings.Split(strings.NewReplacer(eraseLine, "", "\r", "").Replace(frame), "\n")
	const left, top, high = 16.0, 16.0, 18.0
	d := newDrawing(name, title, 2*left+columns*mono.height*mono.room, 2*top+high*float64(len(lines)))
	for i, line := range lines {
		s, color, back := mono, "ink", false
		for _, a := range attributes {
			if rest, ok := strings.CutPrefix(line, a.sequence); ok {
				line, s, color, back = rest, a.size, a.color, a.sequence == reverse
			}
		}
		y := top + high*float64(i)
		if back {
			d.add(`<rect class="f-dim" x="%g" y="%g" width="%g" height="%g"/>`, left-6, y, d.card.w-2*left+12, high)
		}
		if line = strings.TrimRight(strings.TrimSuffix(line, plain), " "); line != "" {
			d.text(left, y+high-5, "start", s, color, line)
		}
	}
	return d
}
