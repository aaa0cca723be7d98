// ucx_perftest: one that works, a missing one, and one that prints nonsense.

package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// ucxSaid is the recorded output of UCX 1.13.1 with -f -v.
const ucxSaid = `[1795233186.631330] [vm:3219 :0]        perftest.c:900  UCX  WARN  CPU affinity is not set (bound to 4 cpus). Performance may be impacted.
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
 200,5.246,310.585,311.5,3219.73,3210.25,3220,3220
`

func TestParseUCX(t *testing.T) {
	for _, said := range []string{ucxSaid, ucxSaid + "[1] UCX WARN that was all, or was it\n"} {
		var f ucxFigure
		if err := f.parse(said); err != nil || f.AvgUs != 311.5 || f.MiBs != 3210.25 {
			t.Errorf("%+v, %v", f, err)
		}
	}
	for _, said := range []string{"", "\n", "nonsense", ucxSaid[:len(ucxSaid)-60], "1,2,3,4,5,6,7\n", "1,2,3,0,5,6,7,8\n", "1,2,3,4,5,NaN,7,8\n", "1,2,3,4,5,Inf,7,8\n",
		"1,2,3,4,5,6,7,8,9\n", "1,2,3,-4,5,6,7,8\n"} {
		f := ucxFigure{}
		if err := f.parse(said); err == nil || strings.Contains(err.Error(), "\n") || f.MiBs != 0 {
			t.Errorf("%q: %+v, %v", said, f, err)
		}
	}
}

// fakeUCX replaces PATH by a shell script named ucx_perftest.
func fakeUCX(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, ucxCommand), []byte("#!/bin/sh\n"+script), 0o755))
	}
	t.Setenv("PATH", dir)
}

// ucx returns the figures of UCX, and their printed table.
func ucx(t *testing.T) (list []*ucxFigure, table string) {
	t.Helper()
	list, err := measureUCX(t.Context(), time.Millisecond)
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	var b strings.Builder
	ucxTable(&b, list, failure)
	return list, strings.TrimSpace(b.String())
}

// The script's server waits forever, like UCX's, so it must be killed. The first client fails, as
// when the server is not ready.
const ucxScript = `
[ "$1" = -p ] && exec /bin/sleep 1000
echo "$@" >> "${0%/*}/asked"
if [ ! -e "${0%/*}/once" ]; then : > "${0%/*}/once"; echo "connect: Connection refused"; exit 1; fi
echo "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"
echo "$9,1,2,2.5,3,4096.5,5,6"
`

func TestMeasureUCX(t *testing.T) {
	fakeUCX(t, ucxScript)
	list, table := ucx(t)
	if len(list) != len(ucxTests) {
		t.Fatalf("%d figures: %s", len(list), table)
	}
	for _, f := range list {
		bulk, latency := f.MiBs == 4096.5 && f.AvgUs == 0, f.MiBs == 0 && f.AvgUs == 2.5
		if strings.HasSuffix(f.Test, "_bw") && !bulk || strings.HasSuffix(f.Test, "_lat") && !latency {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range []string{"tag_bw        1048576 bytes      4096 MiB/s", "ucp_put_lat       100 bytes       2.5 µs one way"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q lacks %q", table, want)
		}
	}
	asked, _ := os.ReadFile(filepath.Join(os.Getenv("PATH"), "asked"))
	if want := "-t ucp_put_bw -s 1048576 -n 400 -w 20 -O 8"; !strings.Contains(string(asked), want) {
		// 400 iterations: 1 ms at 2.5 µs each
		t.Errorf("asked %q, want %q in it", asked, want)
	}
}

func TestNoUCX(t *testing.T) {
	fakeUCX(t, "")
	if list, table := ucx(t); list != nil || !strings.Contains(table, "is not installed") || strings.Contains(table, "\n") {
		t.Errorf("%v, %q", list, table)
	}
}

func TestBadUCX(t *testing.T) {
	for script, want := range map[string]string{
		"echo first; echo nonsense":            `no figures in "nonsense"`,
		"echo first; echo out of luck; exit 3": "exit status 3: out of luck",
	} {
		fakeUCX(t, script)
		list, table := ucx(t)
		if len(list) != 0 || !strings.Contains(table, want) || strings.Contains(table, "\n") {
			t.Errorf("%v, %q, want %q", list, table, want)
		}
	}
}

func TestUCXInterrupted(t *testing.T) {
	fakeUCX(t, "exec /bin/sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if list, err := measureUCX(ctx, time.Millisecond); err == nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}
