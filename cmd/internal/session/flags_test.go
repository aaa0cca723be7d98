// The limits of flags, the error for a silent server, and exports opened with the caller's options.

package session

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// TestBoundsOfFlags: values just outside the limits are refused with name and value.
func TestBoundsOfFlags(t *testing.T) {
	for want, set := range map[string]func(*Flags){
		"--mount-port -1: must be a port, from 0 to 65535":    func(f *Flags) { f.MountPort = -1 },
		"--mount-port 65536: must be a port, from 0 to 65535": func(f *Flags) { f.MountPort = 65536 },
		"--timeout -1s: must be 0 (no limit) or more":         func(f *Flags) { f.Timeout = -time.Second },
		"--connect-timeout 0s: must be more than 0":           func(f *Flags) { f.ConnectTimeout = 0 },
		`--crc "ON": must be on, auto, off or strict`:         func(f *Flags) { f.CRC = "ON" },
		"": func(f *Flags) { f.MountPort, f.Timeout, f.CRC = 65535, time.Nanosecond, "strict" },
	} {
		s := newSession(t, new(strings.Builder))
		set(&s.Flags)
		_, err := s.Options(nfsclient.Target{Host: "h"})
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestFlagsBecomeOptions: without a time limit the mount is hard, and each flag has its effect.
func TestFlagsBecomeOptions(t *testing.T) {
	s := newSession(t, new(strings.Builder))
	s.Flags = Flags{NConnect: 3, MountPort: 635, CRC: "auto", ConnectTimeout: time.Second}
	o, err := s.Options(nfsclient.Target{Host: "h", Transport: nfsclient.TCP})
	if err != nil || o.Conns != 3 || o.MountPort != 635 || o.CRC != rnic.CRCAuto {
		t.Errorf("Options: %v, %d connections, MOUNT at port %d, CRC %v, want 3, 635, %v", err, o.Conns, o.MountPort, o.CRC, rnic.CRCAuto)
	}
	if o.Transport != nfsclient.TCP || o.CallTimeout != transport.Hard {
		t.Errorf("transport %v, call timeout %v, want %v, %v", o.Transport, o.CallTimeout, nfsclient.TCP, transport.Hard)
	}
	s.Flags.Timeout = time.Hour
	if o, err = s.Options(nfsclient.Target{}); err != nil || o.CallTimeout != time.Hour || o.Responding != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestSilenceOfSeveralConnections: one line appears for the first silent connection, and one when
// the last of them answers again.
func TestSilenceOfSeveralConnections(t *testing.T) {
	var lines []string
	responding := SilenceNotice("srv", func(line string) { lines = append(lines, line) })
	for _, ok := range []bool{false, false, true, false, true, true, false, true} {
		responding(ok)
	}
	silent, back := "server srv not responding, still trying", "server srv OK"
	if want := []string{silent, back, silent, back}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestOpenedExportsAreTheCallers: each opened export has its own connection. Its errors have the
// name as typed, and only an unreachable server is retried.
func TestOpenedExportsAreTheCallers(t *testing.T) {
	_, tcp := serve(t)
	s := newSession(t, new(strings.Builder))
	to, err := nfsclient.ParseTarget(tcp + "/mem")
	if err != nil {
		t.Fatalf("ParseTarget: %v", err)
	}
	o := nfsclient.Options{Transport: to.Transport}
	first, err := s.OpenWith(t.Context(), "typed", to, o)
	if err != nil {
		t.Fatalf("OpenWith: %v", err)
	}
	second, err := s.OpenWith(t.Context(), "typed", to, o)
	if err != nil {
		t.Fatalf("OpenWith: %v", err)
	}
	defer second.Client().Close()
	first.Client().Close()
	if _, err := second.Stat(t.Context(), "."); err != nil {
		t.Errorf("after another one was closed: %v", err)
	}
	to.Path = "/mem/none"
	if _, err := s.OpenWith(t.Context(), "srv:/mem/none", to, o); err == nil || err.Error() != "srv:/mem/none: No such file or directory" {
		t.Errorf("%v", err)
	}
	to.Host, to.Path = "127.83.20.48", "/mem" // nothing listens on this address at that port
	var away Unreachable
	if _, err := s.OpenWith(t.Context(), "srv:/mem", to, o); !errors.As(err, &away) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.HasPrefix(err.Error(), "srv:/mem: ") {
		t.Errorf("%v", err)
	}
}
