// Our server is killed and started again while Linux writes.

package linux

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// killScript appends records and syncs each; the host knows at any time the number of the last one
// that fsync has acknowledged. Meanwhile another process rewrites a larger file again and again, so
// that unstable writes are on their way at each kill. At its end it reads all back, and a file that
// was open the whole time.
const killScript = `
exec 3> /mnt/held
head -c 1000000 /dev/urandom > /tmp/large
rm -f /tmp/enough
(while :; do cat /tmp/large > /mnt/large || exit 1; [ ! -e /tmp/enough ] || exit 0; done) &
writer=$!
i=0
while [ $i -lt 60 ]; do
	head -c 4000 /dev/zero | tr '\0' "$(printf '\\%03o' $((65 + i % 26)))" > /tmp/rec
	dd if=/tmp/rec of=/mnt/log bs=4000 seek=$i conv=notrunc,fsync 2>/dev/null || exit 1
	i=$((i + 1))
	echo $i > /share/acknowledged.tmp && mv /share/acknowledged.tmp /share/acknowledged
done
: > /tmp/enough
wait $writer || exit 1
echo "written through the whole time" >&3 || exit 1
exec 3>&-
grep -q written /mnt/held || exit 1
drop_caches
[ $(stat -c %s /mnt/log) = 240000 ] || exit 1
cmp /tmp/large /mnt/large || exit 1
md5sum < /mnt/log
cat /mnt/hello.txt
rm /tmp/large
cd /; umount /mnt`

// record returns record number i of killScript.
func record(i int) []byte { return bytes.Repeat([]byte{byte('A' + i%26)}, 4000) }

// TestServerKilled: the mount recovers by itself. At each kill acknowledged data is there, byte by
// byte, and no handle is stale.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series, proto string
		kills         []int // when this many records are acknowledged
	}{
		{"6.1", "rdma", []int{10, 28, 45}},
		{"6.1", "tcp", []int{20}},
		{"6.12", "rdma", []int{20}},
	} {
		t.Run(c.series+"-"+c.proto, func(t *testing.T) {
			enter(t, c.series)
			g := client(t, c.series)
			killWhileWriting(t, serve(t, g, exportDir(t)), c.proto, c.kills)
			quiet(t, g, reconnects...)
		})
	}
}

// killWhileWriting kills a server while its guest writes to it, and starts it again. Before each
// kill it waits for a number of acknowledged records, from kills.
func killWhileWriting(t *testing.T, s *server, proto string, kills []int) {
	t.Helper()
	progress := filepath.Join(s.g.Share, "acknowledged")
	os.Remove(progress)
	acknowledged := func() (n int) {
		text, _ := os.ReadFile(progress)
		fmt.Sscan(string(text), &n)
		return n
	}
	var want []byte
	for i := range 60 {
		want = append(want, record(i)...)
	}
	run(t, s.g, s.mount(proto, ""))
	script := start(t, s.g, killScript)
	log := filepath.Join(s.dir, "log")
	for _, at := range kills {
		script.until(fmt.Sprintf("%d records are acknowledged", at), func() bool { return acknowledged() >= at })
		n := acknowledged() * len(record(0))
		s.kill()
		b, err := os.ReadFile(log)
		if err != nil || len(b) < n || !bytes.Equal(b[:n], want[:n]) {
			t.Errorf("%d bytes were acknowledged; of the file's %d bytes some are missing or others: %v", n, len(b), err)
		}
		s.start()
	}
	out := script.wait()
	sameFile(t, log, want)
	if !strings.Contains(out, "hello from nfsrdmad") {
		t.Errorf("the guest says %q", out)
	}
}
