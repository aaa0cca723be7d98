// Log lines of JuiceFS and its clients, and how many there are.

package juicefs

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/utils"
)

// TestClientOfRedisLogsAsJuiceFS: while Redis is away its client logs each failed connection. Like
// all lines of JuiceFS, these become warnings: a few in each period, with the number of dropped
// lines.
func TestClientOfRedisLogsAsJuiceFS(t *testing.T) {
	tameLogs()
	log := utils.GetLogger("juicefs")
	var told bytes.Buffer
	before := log.Out
	log.SetOutput(&told)
	defer log.SetOutput(before)
	conf := meta.DefaultConf()
	conf.Retries = 1
	m, err := connect("redis://127.0.0.1:1/1", conf)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if _, err := m.Load(false); err == nil {
		t.Fatal("it was opened")
	}
	if err := m.Shutdown(); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if text := told.String(); !strings.Contains(text, "<WARNING>: redis: connection pool: failed to dial") {
		t.Errorf("logged is %q", text)
	}
	synctest.Test(t, func(t *testing.T) {
		told.Reset()
		log.SetOutput(&limited{to: &told})
		const all = 5 * logLines
		for range all {
			redisLog{log}.Printf(t.Context(), "redis: connection pool: %s", "no")
		}
		if text := told.String(); strings.Count(text, "redis: connection pool: no") != logLines || strings.Count(text, "redis") != logLines {
			t.Errorf("of %d lines are logged %q", all, text)
		}
		told.Reset()
		time.Sleep(2 * logPeriod)
		redisLog{log}.Printf(t.Context(), "sentinel: %s", "master")
		if text := told.String(); !strings.HasPrefix(text, "juicefs: lines that were not logged: 40\n") || !strings.Contains(text, "redis: sentinel: master") {
			t.Errorf("in the next period are logged %q", text)
		}
	})
}
