// How a report looks: in full, on narrow and low terminals, with colors and without.

package top

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

// shown returns sample's report as text in a style. The time of day, which depends on the zone, is
// replaced.
func shown(t *testing.T, s style) string {
	r := sample(t)
	return strings.Replace(strings.Join(s.lines(r), "\n")+"\n", r.Time.Local().Format("15:04:05"), "TIME", 1)
}

func TestLinesInFull(t *testing.T) {
	const want = `nfsrdma top: server:9049, nfsrdmad v1.2, up 6m04s, TIME, 2.0 s
calls 105/s   in <0.1 MiB/s   out 100 MiB/s   errors 2.0/s   repeated 2.0/s
cpu 150%   memory 32.0 MiB   data under way 1.0 MiB of 256.0 MiB   connections 3 (2 iwarp, 1 tcp)
credits used 7.0 of 128   locks 2   waiting for locks 1

OPERATION  OVER  CALLS/s  IN MiB/s  OUT MiB/s    MEAN     P99  QUEUE  ERRORS/s
READ       rdma      100      <0.1        100  5.00ms  9.91ms    0.5       2.0
WRITE      rdma      5.0         0          0       -       -      0         0

CLIENT        OVER        CALLS/s  IN MiB/s  OUT MiB/s  CREDITS    AGE  IDLE  SECURITY                   USERS                EXPORTS        CIPHER
10.0.0.7:700  tcp            10.0      <0.1        1.0        -  1m02s    1s  mtls,krb5p,sys,krb5i,none  none,bob@OTHER,0,+2  /srv/my\ data  TLS_AES_128_GCM_SHA256
10.0.0.8:900  rdma/iwarp      2.0         0          0     7/64     1s    0s  -                          -                    -              -
`
	if got := shown(t, style{order: "calls"}); got != want {
		t.Errorf("%s", got)
	}
}

func TestNarrowAndLow(t *testing.T) {
	const want = `nfsrdma top: server:9049, nfsrdmad v1.2, up 6m04s
calls 105/s   in <0.1 MiB/s   out 100 MiB/s   err
cpu 150%   memory 32.0 MiB   data under way 1.0 M
credits used 7.0 of 128   locks 2   waiting for l

OPERATION  CALLS/s  IN MiB/s    MEAN     P99
READ           100      <0.1  5.00ms  9.91ms

CLIENT        CALLS/s  IN MiB/s  OUT MiB/s
10.0.0.7:700     10.0      <0.1        1.0
`
	got := shown(t, style{width: 49, height: 10, order: "calls"})
	if strings.Replace(got, ", TIME", "", 1) != want {
		t.Errorf("%s", got)
	}
	for width := 1; width < 130; width++ {
		for height := 1; height < 20; height++ {
			lines := (&style{width: width, height: height, order: "name"}).lines(sample(t))
			if len(lines) > height {
				t.Fatalf("%d lines of %d", len(lines), height)
			}
			for _, l := range lines {
				if runewidth.StringWidth(l) > width {
					t.Fatalf("%d columns: %q", width, l)
				}
			}
		}
	}
}

// TestColors: colors appear only if requested; the text is the same.
func TestColors(t *testing.T) {
	with, without := shown(t, style{order: "calls", colors: true}), shown(t, style{order: "calls"})
	if !strings.Contains(with, reverse+"OPERATION") || strings.Contains(without, "\x1b") {
		t.Errorf("%q\n%q", with, without)
	}
	if strings.NewReplacer(bold, "", reverse, "", red, "", plain, "").Replace(with) != without {
		t.Error("colors change the words")
	}
}

func TestWarnings(t *testing.T) {
	r := sample(t)
	if w := warnings(r); w != "" {
		t.Errorf("%q", w)
	}
	r.Restarted, r.Refused, r.LocksLost, r.Retransmissions, r.Waiting = true, 1, 2, 3, 4
	if w := warnings(r); w != "the server has started again   refused 1.0/s   RoCE retransmissions 3.0/s   locks lost 2.0/s   connections that wait for memory: 4.0" {
		t.Errorf("%q", w)
	}
}

func TestOrders(t *testing.T) {
	for order, want := range map[Order]string{"calls": "abc", "bytes": "cba", "mean": "bca", "p99": "bac", "queue": "cab", "errors": "abc", "name": "abc"} {
		list := []Operation{{Procedure: "c", In: 9, Mean: 2, Queue: 3}, {Procedure: "b", Out: 5, Mean: 3, P99: 2, Calls: 1}, {Procedure: "a", P99: 1, Queue: 2, Errors: 1, Calls: 2}}
		order.operations(list)
		if got := list[0].Procedure + list[1].Procedure + list[2].Procedure; got != want {
			t.Errorf("%s: %s", order, got)
		}
		if by, err := ParseOrder(string(order)); err != nil || by != order {
			t.Error(by, err)
		}
	}
	for order, want := range map[Order]string{"calls": "21", "bytes": "12", "queue": "21", "name": "12", "p99": "21"} {
		list := []ClientRate{{Address: "1", In: 9, Calls: 1}, {Address: "2", Queue: 3, Calls: 2}}
		order.clients(list)
		if got := list[0].Address + list[1].Address; got != want {
			t.Errorf("%s: %s", order, got)
		}
	}
	if _, err := ParseOrder("size"); err == nil || !strings.Contains(err.Error(), "want calls, bytes") {
		t.Errorf("ParseOrder: %v, want %q", err, "want calls, bytes")
	}
}

// TestDrawIsBounded: rows beyond the screen are not processed, even for the widths of columns, and
// names with zero-width marks do not flood the terminal.
func TestDrawIsBounded(t *testing.T) {
	marks := "e" + strings.Repeat("\u0301", 100_000)
	r := &Report{Version: marks, ClientsSeen: true}
	for i := range 1000 {
		r.Operations = append(r.Operations, Operation{Program: "nfs", Procedure: marks, Transport: "x", Calls: float64(2000 - i)})
		r.Clients = append(r.Clients, ClientRate{Address: "a", Transport: "x", Calls: float64(2000 - i), Exports: []string{marks, marks}})
	}
	r.Operations[999].Transport, r.Clients[999].Transport = "a-long-name", "a-long-name"
	lines := (&style{width: 120, height: 20, order: "calls"}).lines(r)
	for _, l := range lines {
		if len(l) > 2*maxNameBytes+120 {
			t.Errorf("a line of %d bytes", len(l))
		}
		if strings.Contains(l, "OVER         ") {
			t.Errorf("what is not shown has room: %q", l)
		}
	}
	if len(lines) != 20 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestNumbersAreShort: at most seven characters for any number.
func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.05: "<0.1", 0.1: "0.1", 99.94: "99.9", 99.96: "100", 999_999: "999999", 1e6: "1.0M", 12.34e9: "12.3G", 5e15: "5.0P", 1e19: "999P+"} {
		if got := formatCount(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "-", 1e-9: "0.00us", 12.34e-6: "12.3us", 999.6e-6: "1.00ms", 0.25: "250ms", 9.99: "9.99s", 123: "123s", 5e6: "999s+"} {
		if got := formatSeconds(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0s", 59.4: "59s", 61: "1m01s", 7322: "2h02m", 200000: "2d07h", 1e300: "11574d01h"} {
		if got := formatDuration(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for e := -30.0; e < 300; e += 0.01 {
		if v := math.Pow(10, e); len(formatCount(v)) > 7 || len(formatSeconds(v)) > 7 {
			t.Fatal(fmt.Sprint(v, formatCount(v), formatSeconds(v)))
		}
	}
}
