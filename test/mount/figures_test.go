// The output of mountstats: calls with their times, connections, and memory within its bound.

package mount

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// figures returns the figures from mountstats for a mount.
func figures(t *testing.T, dir string) fusefs.Stats {
	t.Helper()
	out, code := nfsrdma(t, "mountstats", "--json", dir)
	if code != 0 {
		t.Fatalf("status %d, %s", code, out)
	}
	return statsOf(t, out)
}

// statsOf reads the figures from mountstats --json, whose keys are the field names with
// underscores, and times in seconds.
func statsOf(t *testing.T, out string) fusefs.Stats {
	t.Helper()
	var report struct{ Stats map[string]any }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	var s fusefs.Stats
	b, err := json.Marshal(fieldNames(report.Stats))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatalf("%v, %s", err, b)
	}
	return s
}

// fieldNames turns a report's keys into the field names of fusefs.Stats, in any case, and seconds
// into nanoseconds. It drops times_least_seconds, which has no field.
func fieldNames(v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := map[string]any{}
		for key, value := range v {
			name, isTime := strings.CutSuffix(key, "_seconds")
			if f, ok := value.(float64); ok && isTime {
				value = int64(f * 1e9)
			}
			if name != "times_least" {
				if strings.ToUpper(name) != name { // otherwise it names a procedure
					name = strings.ReplaceAll(name, "_", "")
				}
				object[name] = fieldNames(value)
			}
		}
		return object
	case []any:
		for i := range v {
			v[i] = fieldNames(v[i])
		}
	}
	return v
}

// TestFigures: each call is counted with its bytes and times, also on the data path, and the
// connections are shown.
func TestFigures(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		script(t, dir, "name=$(basename $PWD)-data; head -c 3000000 /dev/zero > $name; sync $name; dd if=$name of=/dev/null bs=1M iflag=direct 2> /dev/null")
		s := figures(t, dir)
		for proc, least := range map[string][2]uint64{"WRITE": {3000000, 100}, "READ": {100, 3000000}, "CREATE": {100, 100}} {
			c := s.Calls[proc]
			if c.Count == 0 || c.SentBytes < least[0] || c.ReceivedBytes < least[1] || c.RoundTripMean <= 0 || c.RoundTripP99 <= 0 || c.QueueMean < 0 {
				t.Errorf("%s: %+v", proc, c)
			}
		}
		if len(s.Connections) != 2 {
			t.Fatalf("connections: %+v", s.Connections)
		}
		for _, c := range s.Connections {
			if !c.Up || c.Silent || c.Connects != 1 || c.Waiting < 0 || c.Addr == "" {
				t.Errorf("%+v", c)
			}
		}
		if strings.HasSuffix(t.Name(), "rdma") && s.Connections[0].Credits < 2 {
			t.Errorf("credits: %+v", s.Connections)
		}
		// The keys of mechanisms in JSON are names without underscores, because fieldNames has
		// removed them.
		for name, iwarp := range map[string]bool{"fusespin": false, "fusereader": false, "spin": true, "callerreceive": true} {
			if _, got := s.Mechanisms[name]; got != (!iwarp || strings.HasSuffix(t.Name(), "rdma")) {
				t.Errorf("mechanism %s is there: %v; all are %+v", name, got, s.Mechanisms)
			}
		}
		if c := s.Mechanisms["fusereader"]; c.Won+c.Lost == 0 {
			t.Errorf("the FUSE reader has run no request: %+v", c)
		}
		text, _ := nfsrdma(t, "mountstats", dir)
		for _, want := range []string{"mechanisms:", "round trip p99", "queue mean", "retransmits", "credits", "memory most:             384.0 MiB"} {
			if !strings.Contains(text, want) {
				t.Errorf("there is no %q in\n%s", want, text)
			}
		}
	}, "nconnect=2")
}

// TestMemoryIsBounded: the memory option bounds the held data while programs write and read more
// than that.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		const most = 16 << 20
		if s := figures(t, dir); s.MemoryMost > most || s.MemoryMost < most/2 {
			t.Errorf("the bound is %d", s.MemoryMost)
		}
		name := filepath.Join(dir, "m-"+filepath.Base(dir))
		files := ""
		for i := range 4 {
			files += " " + name + strconv.Itoa(i)
		}
		held := int64(0)
		look := func() {
			s := figures(t, dir)
			held = max(held, s.Memory)
			if s.Memory > s.MemoryMost || s.Memory != s.Data.WriteMemory+s.Data.ReadMemory {
				t.Errorf("%d bytes are held, of %d", s.Memory, s.MemoryMost)
			}
		}
		for _, each := range []string{"head -c 16M /dev/zero > $f", "cat $f > /dev/null"} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				script(t, dir, "sync; for f in"+files+"; do "+each+" & done; wait")
			}()
			for ended := false; !ended; {
				look()
				select {
				case <-done:
					ended = true
				default:
				}
			}
		}
		if held == 0 {
			t.Error("nothing was ever held")
		}
	}, "memory=16M")
}
