// The metrics page: as the server writes it, and as a browser shows it while a server stops and
// restarts.

package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// servedFigures runs a server with metrics at addr and all transports until the test ends, and uses
// two transports. again makes the same calls once more.
func servedFigures(t *testing.T, ctx context.Context) (addr string, again func()) {
	t.Helper()
	host := machine.Addr(t).String()
	tcp, rdma, addr := freePort(t), freePort(t), "127.0.0.1:"+freePort(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error)
	state := filepath.Join(t.TempDir(), "state")
	go func() {
		_, err := run(ctx, "serve", "--memory", "--state-dir", state, "--addr", host, "--tcp-port", tcp, "--rdma", "iwarp,roce", "--rdma-port", rdma,
			"--rpcbind", "off", "--metrics-addr", addr, "--log-level", "error")
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("at its end: %v", err)
		}
	})
	url := "nfsrdma://" + host + ":" + rdma + "/memory"
	use(t, ctx, "nfs://"+host+":"+tcp+"/memory", nfsclient.TCP.String())
	use(t, ctx, url, nfsclient.RDMA.String())
	n := 0
	return addr, func() { n++; use(t, ctx, url, fmt.Sprint("again", n)) }
}

// TestPageWithoutScript: the tables are in the page itself, and its headers allow no resource from
// elsewhere.
func TestPageWithoutScript(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	addr, _ := servedFigures(t, ctx)
	bodies := map[string]string{}
	for path, kind := range map[string]string{"/": "text/html", "/page.js": "javascript", "/page.css": "text/css", "/figures.json": "application/json"} {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatalf("http.Get: %v", err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		bodies[path] = string(b)
		policy := res.Header.Get("Content-Security-Policy")
		if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Content-Type"), kind) || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s %v, want OK, %s and nosniff", path, res.Status, res.Header, kind)
		}
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q, want none by default and nothing unsafe", path, policy)
		}
	}
	for _, want := range []string{
		`<th scope="row">nfs</th><th scope="row">READ</th><th scope="row">tcp</th><td class="number">1</td>`,
		`<th scope="row">LOOKUP</th><th scope="row">rdma</th><th scope="row">NFS3ERR_NOENT</th><td class="number">2</td>`,
		`<th scope="row">data</th><td class="number">256.0 MiB</td>`,
		`<th scope="row">malformed</th><td class="number">`, `<th scope="row">export_port</th>`,
		`<th scope="row">rdma</th><th scope="row">iwarp</th><td class="number">`,
	} {
		if !strings.Contains(bodies["/"], want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(bodies["/"])
	}
	// Every metric in the tables exists, because an empty column would mean a wrong name.
	var p pageFigures
	must.Succeed(t, json.Unmarshal([]byte(bodies["/figures.json"]), &p))
	titles := pageTables()
	for i, table := range p.Tables {
		for j := range table.Columns {
			there := false
			for _, r := range table.Rows {
				there = there || r.Cells[j] != nil && r.Cells[j].Text != ""
			}
			if !there {
				t.Errorf("nothing in column %s of %s", titles[i].Columns[j].Title, titles[i].Title)
			}
		}
	}
}

// A browserProxy is a proxy between a browser and a server's metrics, so it sees every request of
// the browser. It leaves some requests unanswered, then makes the server look restarted, and
// records unexpected requests.
type browserProxy struct {
	addr  string
	again func() // makes calls to the server

	mu      sync.Mutex
	polls   int
	outside []string
}

func (p *browserProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Host != p.addr || r.Method != http.MethodGet {
		p.outside = append(p.outside, r.Method+" "+r.URL.String())
		http.Error(w, "not here", http.StatusForbidden)
		return
	}
	poll := r.URL.Path == "/figures.json"
	if poll {
		p.polls++
		if p.polls == 4 || p.polls == 5 {
			http.Error(w, "gone", http.StatusBadGateway)
			return
		}
		p.again()
	}
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", p.addr }}
	if !poll || p.polls < 9 {
		to.ServeHTTP(w, r)
		return
	}
	res := httptest.NewRecorder()
	to.ServeHTTP(res, r)
	var f map[string]any
	if err := json.Unmarshal(res.Body.Bytes(), &f); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	f["started_unix_nanoseconds"] = 1
	for _, table := range f["tables"].([]any) {
		table := table.(map[string]any)
		if table["id"] == "errors" {
			table["rows"] = []any{} // like a server that has not refused a call yet
		}
	}
	b, _ := json.Marshal(f)
	w.Write(b)
}

// TestPageInBrowser: Chromium shows metrics, rates and charts without errors and contacts no other
// server; the page continues after a pause or a restart of the server.
func TestPageInBrowser(t *testing.T) {
	const browser = "chromium-headless-shell"
	if _, err := exec.LookPath(browser); err != nil {
		machine.Skip(t, "needs "+browser)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	addr, again := servedFigures(t, ctx)
	proxy := &browserProxy{addr: addr, again: again}
	server := httptest.NewServer(proxy)
	defer server.Close()
	// Virtual time stops while the page waits for an answer, so a slow machine shows the same page.
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--proxy-server="+server.URL, "--proxy-bypass-list=<-loopback>",
		"--window-size=360,800", "--virtual-time-budget=25000", "--enable-logging=stderr", "--dump-dom", "http://"+addr+"/")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	dom := string(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	t.Logf("%d questions; processor time of the browser: %v", proxy.polls, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if proxy.polls < 10 || len(proxy.outside) > 0 {
		t.Errorf("%d questions; elsewhere: %q", proxy.polls, proxy.outside)
	}
	if i := strings.Index(said.String(), "CONSOLE"); i >= 0 {
		t.Errorf("the console has %s", said.String()[i:])
	}
	const some = `(0\.0*)?[1-9][0-9.e-]*` // above zero, however slow the machine
	for what, want := range map[string]string{
		"rate of READs":   `READ</th><th scope="row">rdma</th><td class="number">\d+</td><td class="number live">` + some + `/s</td>`,
		"chart of calls":  `aria-label="Calls per second: nfs LOOKUP rdma ` + some + `/s`,
		"chart of bytes":  `aria-label="Bytes in: nfs WRITE rdma ` + some + ` MiB/s`,
		"line with a gap": `<path class="plot c0" d="M[^M"]*L[^M"]*M[^"]*L`,
		"gap":             `Live, every two seconds\. The server did not answer from [^<]* to [^<]*\. It was started again before`,
		"no more errors":  `(?s)<h2 id="errors-title">Errors</h2>\s*<div class="charts"></div>\s*<p class="none">None`,
	} {
		if !regexp.MustCompile(want).MatchString(dom) {
			t.Errorf("no %s: %s", what, want)
		}
	}
	if bad := regexp.MustCompile(`NaN|undefined|Infinity|[ >]-[0-9]`).FindString(dom); bad != "" {
		t.Errorf("there is %q", bad)
	}
	if t.Failed() {
		t.Logf("%s\n%s", dom, said.String())
	}
}
