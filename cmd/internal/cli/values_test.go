// Flag values: each accepted spelling, and the errors for wrong ones.

package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestValues(t *testing.T) {
	var took time.Duration
	var port uint16
	var locks bool
	var said bytes.Buffer
	command := func() *cobra.Command {
		cmd := &cobra.Command{Use: "prog"}
		cmd.SetErr(&said)
		DurationVar(cmd.Flags(), &took, "time", 10*time.Second, "")
		PortVar(cmd.Flags(), &port, "port", 2049, "")
		SwitchVar(cmd, &locks, "locks", true, "")
		return cmd
	}
	for _, c := range []struct {
		arg   string
		time  time.Duration
		port  uint16
		locks bool
		said  string
	}{
		{"--time=5", 5 * time.Second, 2049, true, ""},
		{"--time=0.5", time.Second / 2, 2049, true, ""},
		{"--time=2m", 2 * time.Minute, 2049, true, ""},
		{"--time=0", 0, 2049, true, ""},
		{"--port=off", 10 * time.Second, 0, true, ""},
		{"--port=0", 10 * time.Second, 0, true, ""},
		{"--port=65535", 10 * time.Second, 65535, true, ""},
		{"--locks=off", 10 * time.Second, 2049, false, ""},
		{"--locks=on", 10 * time.Second, 2049, true, ""},
		{"--locks=false", 10 * time.Second, 2049, false, "prog: warning: --locks=false is now written --locks off\n"},
	} {
		said.Reset()
		if err := command().ParseFlags([]string{c.arg}); err != nil {
			t.Errorf("%s: %v", c.arg, err)
		}
		if took != c.time {
			t.Errorf("%s: %v, want %v", c.arg, took, c.time)
		}
		if port != c.port {
			t.Errorf("%s: port %d, want %d", c.arg, port, c.port)
		}
		if locks != c.locks {
			t.Errorf("%s: %v, want %v", c.arg, locks, c.locks)
		}
		if said.String() != c.said {
			t.Errorf("%s: said %q, want %q", c.arg, &said, c.said)
		}
	}
	for _, arg := range []string{"--time=x", "--time=1e99", "--time=NaN", "--time=", "--port=65536", "--port=-1", "--port=no", "--locks=no", "--locks=", "--locks=/srv"} {
		if err := command().ParseFlags([]string{arg}); err == nil {
			t.Errorf("%s was taken", arg)
		}
	}
}
