// The requests that the proxy passes on.

package juicefstest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProxyPassesWholeRequests: if an upload's sender leaves before it has sent everything, nothing
// reaches the service. If the sender leaves later, all bytes do.
func TestProxyPassesWholeRequests(t *testing.T) {
	const size = 1 << 20
	came := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		came <- fmt.Sprintf("%s: %d bytes, %v", r.URL.Path, len(b), err)
	}))
	defer service.Close()
	p := newProxy(t, strings.TrimPrefix(service.URL, "http://"))
	// put sends a part of an upload and closes the connection. With await it first waits for an
	// answer.
	put := func(name string, part int, await bool) {
		t.Helper()
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "PUT /%s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", name, size, strings.Repeat("x", part)); err != nil {
			t.Fatalf("fmt.Fprintf: %v", err)
		}
		if await {
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("http.ReadResponse: %v", err)
			}
			res.Body.Close()
		}
	}
	release, taken := make(chan struct{}), make(chan struct{}, 10)
	slow := Slow(http.MethodPut, release)
	p.Break(func(w http.ResponseWriter, r *http.Request) bool {
		taken <- struct{}{}
		return slow(w, r)
	})
	put("part", size/2, false)
	put("whole", size, false)
	<-taken
	<-taken
	close(release)
	p.Mend()
	put("last", size, true)
	want := fmt.Sprintf(": %d bytes, <nil>", size)
	seen := map[string]bool{}
	for !seen["/whole"+want] || !seen["/last"+want] {
		is := <-came
		if seen[is] = true; !strings.HasSuffix(is, want) {
			t.Errorf("the service gets %s", is)
		}
	}
}
