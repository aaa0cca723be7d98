// Mounts of an ordinary user, by fusermount3.

package fusefs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// asNobody runs a child with its description as the user nobody, which fusermount3 finds in passwd.
// The mount namespace has /dev/fuse open to all. $1 is the child's program, $2 an empty directory,
// $3 the mount point, $4 the command to run there.
const asNobody = `
mknod $2/fuse c 10 229
chmod 666 $2/fuse
mount --bind $2/fuse /dev/fuse
: > $2/fuse.conf
mount --bind $2/fuse.conf /etc/fuse.conf
mkfifo $2/in
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
: > $2/out
{ as "$1" < $2/in > $2/out 2>&1 || true; : > $2/over; } &
child=$!
exec 9> $2/in
until grep -q '^ready' $2/out || test -e $2/over; do sleep 0.05; done
if grep -q ready $2/out; then
	grep -q "^test:/export $3 fuse.nfsrdma rw,nosuid,nodev.*user_id=65534" /proc/mounts
	as sh -euc "$4" sh $3
	if ls $3 2> /dev/null; then echo root sees it; fi
fi
exec 9>&-
wait $child || true
cat $2/out
if grep " $3 " /proc/mounts; then exit 1; fi`

// A user without the right to mount(2) mounts with fusermount3 for their own use. With allow_other,
// mounting fails, and the error explains this option.
func TestOrdinaryUser(t *testing.T) {
	needFUSE(t)
	for _, tool := range []string{"unshare", "setpriv", "fusermount3"} {
		if _, err := exec.LookPath(tool); err != nil {
			machine.Skip(t, "there is no "+tool)
		}
	}
	machine.NeedRoot(t, "becoming another user needs root")
	base, err := os.MkdirTemp("", "nfsrdma-fusefs-")
	must.Succeed(t, err)
	defer os.RemoveAll(base)
	must.Succeed(t, os.Chmod(base, 0o755)) //nolint:gosec // the other user reads it
	d := description{Export: filepath.Join(base, "served"), Dir: filepath.Join(base, "mnt")}
	for _, dir := range []string{d.Export, d.Dir} {
		must.Succeed(t, os.Mkdir(dir, 0o700))
		must.Succeed(t, os.Chown(dir, 65534, 65534))
	}
	program, err := os.ReadFile(os.Args[0]) // go test keeps it where only root can read
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(base, "child"), program, 0o755)) //nolint:gosec // it is run
	run := func() string {
		t.Helper()
		text, err := json.Marshal(d)
		must.Succeed(t, err)
		room, err := os.MkdirTemp(base, "room-")
		must.Succeed(t, err)
		must.Succeed(t, os.Chmod(room, 0o755)) //nolint:gosec // likewise
		cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-euc", machine.LeaveMounts(`""`)+asNobody, "sh", filepath.Join(base, "child"), room, d.Dir, "echo mine > $1/f; cat $1/f")
		cmd.Env = append(os.Environ(), childEnv+"="+string(text))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	out := run()
	if !strings.HasPrefix(out, "mine\n") || !strings.HasSuffix(out, "ready\nunmounted\n") {
		t.Errorf("got %q, want \"mine\" at first, \"ready\" and \"unmounted\" at the end", out)
	}
	if strings.Contains(out, "root sees") {
		t.Errorf("root has access to the user's mount: %q", out)
	}
	if b, err := os.ReadFile(filepath.Join(d.Export, "f")); err != nil || string(b) != "mine\n" {
		t.Errorf("on the server: %q, %v", b, err)
	}
	d.Opt.AllowOther = true
	out = run()
	if strings.Contains(out, "ready") {
		t.Errorf("allow_other: got %q, want no mount", out)
	}
	for _, want := range []string{"mount " + d.Dir + ": ", "/etc/fuse.conf has the line user_allow_other"} {
		if !strings.Contains(out, want) {
			t.Errorf("allow_other: got %q, want %q in it", out, want)
		}
	}
}
