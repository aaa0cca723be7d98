// Locks of programs that receive signals while they wait, or while the server is silent.

package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// signalLocker is a Perl program that locks a file by flock or fcntl, and waits for the lock or
// not. It has a handler for SIGALRM, after which system calls are restarted or not. It sends itself
// that signal at an interval in seconds; 0: never. Each line of its input is a command. 0 tries to
// lock, and writes the outcome. 1 unlocks. 2 locks, again after each interruption, adds 1 to the
// number in the file, and unlocks.
const signalLocker = `use Fcntl qw(:flock :seek F_SETLKW F_SETLK F_WRLCK F_UNLCK); use POSIX; use Time::HiRes qw(setitimer ITIMER_REAL);
my ($path, $call, $wait, $restart, $every) = @ARGV;
open F, "+<", $path or die "$path: $!"; $| = 1;
POSIX::sigaction(SIGALRM, POSIX::SigAction->new(sub {}, POSIX::SigSet->new, $restart ? SA_RESTART : 0)) or die;
sub set { my ($type, $wait) = @_;
	return flock(F, $type == F_UNLCK ? LOCK_UN : $wait ? LOCK_EX : LOCK_EX | LOCK_NB) if $call eq "flock";
	fcntl(F, $wait ? F_SETLKW : F_SETLK, pack("s s x![q] q q i x![q]", $type, SEEK_SET, 0, 0, 0)) }
sub try { set(F_WRLCK, $wait) ? "locked" : "$!" }
setitimer(ITIMER_REAL, $every, $every) if $every;
while (my $line = <STDIN>) {
	if ($line == 0) { print try(), "\n"; next }
	if ($line == 1) { print set(F_UNLCK, 0) ? "unlocked" : "$!", "\n"; next }
	my $got; do { $got = try() } while ($got eq "Interrupted system call");
	if ($got ne "locked") { print "$got\n"; next }
	sysseek(F, 0, SEEK_SET); sysread(F, my $n, 20); sysseek(F, 0, SEEK_SET); syswrite(F, sprintf("%09d", $n + 1));
	until (set(F_UNLCK, 0)) { $!{EINTR} or die "unlock: $!" }
	print "counted\n";
}
`

// signalLockers are the ways to lock, and to handle a signal.
var signalLockers = []struct{ call, restart string }{{"fcntl", "0"}, {"flock", "0"}, {"fcntl", "1"}, {"flock", "1"}}

// startSignalLocker starts a signalLocker on the file in a mount.
func (r *lockRig) startSignalLocker(dir, call, wait, restart, every string) *lockerProcess {
	r.Helper()
	cmd := exec.Command("perl", "-e", signalLocker, filepath.Join(dir, "file"), call, wait, restart, every)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	return startLockerBy(r.T, cmd)
}

// beCalled makes the server call mount b about a lock that a program waits for. Later programs on b
// then enter the server's queue.
func (r *lockRig) beCalled(a, b string) {
	r.Helper()
	release := r.hold(a)
	p := r.flock(b, "true")
	r.standsInQueue(b)
	release()
	r.ends(p)
}

// TestSignalsToThoseThatWait: a signal with a handler ends the wait for a lock with EINTR, unless
// the handler makes the call repeat. The request leaves the server's queue, and no program has the
// lock afterwards. The same holds for a killed program.
func TestSignalsToThoseThatWait(t *testing.T) {
	t.Parallel()
	need(t, "perl")
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			r := newLockRig(t)
			a, b := r.mount(proto), r.mount(proto)
			r.beCalled(a, b)
			for _, l := range signalLockers {
				r.signalWhileItWaits(a, b, l.call, l.restart, syscall.SIGALRM)
				r.signalWhileItWaits(a, b, l.call, l.restart, os.Kill)
			}
		})
	}
}

// signalWhileItWaits sends a signal to a program on mount b, which waits for a lock held through
// mount a.
func (r *lockRig) signalWhileItWaits(a, b, call, restart string, signal os.Signal) {
	r.Helper()
	release := r.hold(a)
	p := r.startSignalLocker(b, call, "1", restart, "0")
	locks, cancels := r.calls(b, "NLM_LOCK"), r.calls(b, "NLM_CANCEL")
	p.lock(0)
	waitFor(r.T, "LOCK that waits", func() bool { return r.calls(b, "NLM_LOCK") >= locks+2 })
	p.signal(signal)
	waitFor(r.T, "CANCEL", func() bool { return r.calls(b, "NLM_CANCEL") > cancels })
	if signal != os.Kill && restart == "0" {
		p.want("Interrupted system call")
	}
	release()
	if signal != os.Kill && restart != "0" {
		p.want("locked")
		p.signal(os.Kill)
	}
	waitFor(r.T, "the lock that no program wants to be free", r.free)
	p.signal(os.Kill)
}

// TestSignalsWhileTheServerIsSilent: a program asks for a free lock. A signal with a handler
// changes nothing: the program has the lock when the server answers. After a program's end by a
// signal nothing has it, though the server grants it then.
func TestSignalsWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	need(t, "perl")
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			r := newLockRig(t)
			dir := r.mount(proto)
			r.hold(dir)() // so that the lock manager is known
			for _, call := range []string{"fcntl", "flock"} {
				for _, wait := range []string{"0", "1"} {
					for _, signal := range []os.Signal{syscall.SIGALRM, os.Kill} {
						r.signalWhileSilent(dir, call, wait, signal)
					}
				}
			}
		})
	}
}

func (r *lockRig) signalWhileSilent(dir, call, wait string, signal os.Signal) {
	r.Helper()
	what := call + " " + wait + " " + signal.String()
	waitFor(r.T, what+": the lock of before to be free", r.free)
	p := r.startSignalLocker(dir, call, wait, "0", "0")
	p.lock(0)
	p.want("locked")
	p.lock(1)
	p.want("unlocked")
	asked := func() uint64 { s := figures(r.T, dir); return s.Operations["SETLK"] + s.Operations["SETLKW"] }
	callsWait := func() bool {
		n := 0
		for _, c := range figures(r.T, dir).Connections {
			n += c.Waiting
		}
		return n > 0
	}
	before := asked()
	server := r.srv.cmd.Process
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		r.Fatal(err)
	}
	defer func() { _ = server.Signal(syscall.SIGCONT) }()
	p.lock(0)
	waitFor(r.T, what+": a call to a silent server", func() bool { return asked() > before && callsWait() })
	p.signal(signal)
	if signal == os.Kill {
		_ = p.cmd.Wait()
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		r.Fatal(err)
	}
	if signal != os.Kill {
		p.want("locked")
		p.signal(os.Kill)
	}
	waitFor(r.T, what+": no calls under way", func() bool { return !callsWait() })
	waitFor(r.T, what+": the lock of a killed program to be free", r.free)
}

// TestSignalsDoNotBreakExclusion: programs of two mounts that receive a signal each few
// milliseconds count under a lock, and lose no count.
func TestSignalsDoNotBreakExclusion(t *testing.T) {
	t.Parallel()
	need(t, "perl")
	const each = 10
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			r := newLockRig(t)
			dirs := []string{r.mount(proto), r.mount(proto)}
			r.beCalled(dirs[0], dirs[1])
			var all []*lockerProcess
			for _, dir := range dirs {
				for _, l := range signalLockers {
					all = append(all, r.startSignalLocker(dir, l.call, "1", l.restart, "0.02"))
				}
			}
			for range each {
				for _, p := range all {
					p.lock(2)
				}
			}
			for _, p := range all {
				for range each {
					p.want("counted")
				}
			}
			b, err := os.ReadFile(r.onDisk.Name())
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			if want := fmt.Sprintf("%09d", each*len(all)); string(b) != want {
				t.Errorf("lost counts: the file has %q, want %q", b, want)
			}
			waitFor(t, "the lock to be free", r.free)
		})
	}
}
