// The messages of a perftest 6.06 client to a server, as recorded from Debian 12's programs.

package verbs

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

const (
	recordedHead = "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "|\x00\x00\x10\x00|\x00\x00\x00@|3\x00"
	recordedKey  = "|0000:0001:000016:42c032:0000076f:000055e2b4eb0000:00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:01:00000000:\x00"
	recordedBW   = "|\x00\x00\x00\x00\x00\x00\x10\x00|\x00\x00\x00\x00\x00\x00\x00d|@$\xcc\x8b\xcer\xba\xb2|@!\xab}\x89c\x9fn|?b\x8793\xc5\x9a\xe7"
	recordedEnd  = "|done\x00"
)

// TestPerfTranscript: our server answers each message of a recorded client with one of the same
// length, in turn. The tests here need only this exchange to end; with UD no message arrives.
func TestPerfTranscript(t *testing.T) {
	conformance.Proves(t, "IBU-255")
	for name, text := range map[string]string{
		"send_bw":  recordedHead + strings.Repeat(recordedKey, 5) + recordedEnd,
		"write_bw": recordedHead + strings.Repeat(recordedKey, 4) + recordedBW + recordedKey + recordedEnd,
		"read_lat": recordedHead + strings.Repeat(recordedKey, 5) + recordedEnd,
	} {
		service := rnic.RC
		if name == "send_bw" {
			service = rnic.UD
		}
		play := func(ctx context.Context, o Options) (*PerfReport, error) {
			if o.server() {
				return Perf(ctx, name, o)
			}
			return nil, speak(o.address(), strings.Split(text, "|"))
		}
		s, _, err, err2 := both(t, Options{Service: service, Size: 1024, Iterations: 100}, play, nil, nil)
		if err != nil || err2 != nil {
			t.Errorf("%s: %v; %v", name, err, err2)
			continue
		}
		if name == "write_bw" && (s.Messages != 100 || fmt.Sprintf("%.2f %.6f", s.Average, s.Rate) != "8.83 0.002262") {
			t.Errorf("the client's figures have become %+v", s)
		}
	}
}

// speak sends each message, and reads an answer with the same length before the next.
func speak(at string, messages []string) error {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // ends an exchange that hangs
	for i, m := range messages {
		if _, err := io.WriteString(c, m); err != nil {
			return err
		}
		b := make([]byte, len(m))
		if _, err := io.ReadFull(c, b); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if len(m) == exchange.KeyLen {
			if _, err := exchange.ParseKey(b); err != nil {
				return fmt.Errorf("message %d: %w: %q", i, err, b)
			}
		}
	}
	if n, _ := c.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("more after the last message")
	}
	return nil
}

// TestPingpongDefaults: the defaults are those of Linux's pingpongs.
func TestPingpongDefaults(t *testing.T) {
	conformance.Proves(t, "IBU-254")
	for service, want := range map[rnic.Service]Common{rnic.RC: {MTU: 1024, Size: 4096}, rnic.UC: {MTU: 1024, Size: 4096}, rnic.UD: {MTU: 4096, Size: 1024}} {
		s, c, err, err2 := both(t, Options{Service: service}, Pingpong, nil, nil)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if s.MTU != want.MTU || c.Size != want.Size || c.Iterations != 1000 {
			t.Errorf("%v: %+v, %+v", service, s, c)
		}
	}
	if qkey != 0x11111111 {
		t.Errorf("%#x", qkey)
	}
}
