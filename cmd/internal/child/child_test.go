// Children: this test binary in the role that its argument names.

package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain also runs the child. Depending on the argument, the child prints its PID and waits for
// its input's end, prints nothing, or fails at the end.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Environ(), Env) {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "mute":
		os.Exit(0)
	case "waits", "fails":
		fmt.Println(" pid", os.Getpid(), strings.Join(os.Args[2:], "+"), " ")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	if os.Args[1] == "fails" {
		os.Exit(7)
	}
}

func TestChildSaysItsLineAndEndsWithItsInput(t *testing.T) {
	c, err := Start(t.Context(), "waits", "a", "b c")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	if want := fmt.Sprintf("pid %d a+b c", c.PID()); c.Line != want {
		t.Errorf("%q, want %q", c.Line, want)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := c.cmd.Process.Signal(os.Interrupt); err == nil {
		t.Error("it is still there after Stop")
	}
}

func TestExitStatusIsReported(t *testing.T) {
	c, err := Start(t.Context(), "fails")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	if err := c.Stop(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("%v", err)
	}
}

func TestChildThatSaysNothingDidNotStart(t *testing.T) {
	if c, err := Start(t.Context(), "mute"); err == nil || err.Error() != "child process mute did not start" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestContextEndsTheChild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Start(ctx, "waits")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	cancel()
	if err := c.cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if _, err := Start(ctx, "waits"); err == nil {
		t.Error("started after the end")
	}
}
