// Locks at another project's server: the checks of TestTwoGuestsLock and TestGuestAndMountLock.
// Answers are logged.

package linux

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A foreignLocks is another project's server and all machines that lock its file. The first is the
// server's machine.
type foreignLocks struct {
	*foreign
	lockingAll
}

// lockAtForeign runs TestTwoGuestsLock's checks at another project's server.
func lockAtForeign(t *testing.T) {
	f := startForeign(t, "6.1")
	tool, count := program(t, "test/linux/cmd/locker"), new(int)
	l := &foreignLocks{foreign: f, lockingAll: lockingAll{t: t}}
	server := &locking{t: t, g: f.g, server: true, path: filepath.Join(f.dir, "lock"), command: tool, count: count}
	f.there(": > " + server.path)
	if f.g == nil {
		file, err := os.OpenFile(server.path, os.O_RDWR, 0)
		if err != nil {
			t.Fatalf("os.OpenFile: %v", err)
		}
		t.Cleanup(func() { file.Close() })
		l.here = fileLock{t, file}
	} else {
		server.command = intoGuest(t, f.g, tool)
		l.here = guestFile{server}
	}
	l.all = []*locking{server}
	for i, series := range []string{"6.1", "6.12"} {
		g := client(t, series)
		forwards(t, g.Device)
		run(t, g, "hostname client"+strconv.Itoa(i))
		lockUp(t, g)
		endLocks(t, g)
		run(t, g, f.mount(g, []string{"rdma", "tcp"}[i]))
		l.all = append(l.all, &locking{t: t, g: g, path: "/mnt/lock", command: intoGuest(t, g, tool), count: count})
	}
	began := time.Now()
	if out := l.all[1].run(l.all[1].command + " /mnt/lock try w 0 1"); !strings.Contains(out, "granted") {
		t.Fatalf("the first lock: %s", out)
	}
	t.Logf("the first lock of all was there after %v", time.Since(began).Round(time.Second))
	for _, part := range []struct {
		name string
		ask  func(*foreignLocks)
	}{
		{"kinds", (*foreignLocks).eachKind}, {"waiters", (*foreignLocks).eachWaiter}, {"parts", (*foreignLocks).eachPart}, {"circles", (*foreignLocks).circles}, {"mount", (*foreignLocks).withMount}, {"mount-circles", (*foreignLocks).circlesWithMount},
		{"restart", (*foreignLocks).restart}, {"crash", (*foreignLocks).crashes}, {"gone", (*foreignLocks).goesForGood},
	} {
		t.Run(part.name, func(t *testing.T) {
			one := *l
			of := *f
			of.t, one.foreign, one.lockingAll.t = t, &of, t
			for _, a := range one.all {
				a.t = t
			}
			part.ask(&one)
		})
	}
}

func (l *foreignLocks) log(format string, args ...any) {
	l.lockingAll.t.Helper()
	l.lockingAll.t.Logf(format, args...)
}

// who returns the name of one machine for the log.
func (l *foreignLocks) who(one *locking) string {
	switch {
	case one.server:
		return "a program of the server's machine"
	case one.mounted:
		return "nfsrdma mount"
	}
	return "client " + one.g.Guest
}

func (l *foreignLocks) eachKind() { l.kinds() }

// eachWaiter makes each machine wait for each other machine's lock, until the lock is free.
func (l *foreignLocks) eachWaiter() {
	for _, holder := range l.all {
		for _, waiter := range l.all {
			if waiter == holder {
				continue
			}
			l.waits(holder, waiter)
		}
	}
}

func (l *foreignLocks) waits(holder, waiter *locking) {
	t := l.lockingAll.t
	t.Helper()
	first := holder.start("w 0 0")
	comes(t, "the first lock", first.has)
	second := waiter.start("w 5 1")
	time.Sleep(2 * time.Second) // it must wait; without waiting, the lock would arrive at once
	if second.has() {
		t.Errorf("%s has what %s has locked", l.who(waiter), l.who(holder))
	}
	first.end()
	took, _ := within(45*time.Second, second.has)
	l.log("%s had what %s released %s %s", l.who(waiter), l.who(holder), took, second.told())
	second.end()
	if took, ok := within(time.Minute, func() bool { return !l.here.taken() }); !ok {
		t.Fatalf("the lock is free %s; the server's machine has\n%s", took, l.there("cat /proc/locks"))
	}
}

// eachPart makes each machine wait for each other machine's lock. The process with the lock then
// releases the part that is waited for, and keeps running.
func (l *foreignLocks) eachPart() {
	t := l.lockingAll.t
	for _, holder := range l.all {
		for _, waiter := range l.all {
			for _, kinds := range [][3]string{{"w 0 0", "u 5 1", "w 5 1"}, {"r 0 10", "u 0 10", "w 5 1"}, {"W 0 0", "U 0 0", "W 0 0"}} {
				if waiter == holder || kinds[0] == "W 0 0" && (holder.onServer() || waiter.onServer()) {
					continue
				}
				has, goes := holder.mark("has"), holder.mark("go")
				first := holder.start(kinds[0] + " says " + has + " await " + goes + " " + kinds[1])
				comes(t, "the first lock", func() bool { return first.marks(has) })
				second := waiter.start(kinds[2])
				time.Sleep(time.Second)
				if second.has() {
					t.Errorf("%s has what %s has locked", l.who(waiter), l.who(holder))
				}
				must.Succeed(t, os.WriteFile(first.here(goes), nil, 0o644))
				took, _ := within(45*time.Second, second.has)
				l.log("%s had %s %s after %s of %s was followed by %s %s", l.who(waiter), kinds[2], took, kinds[0], l.who(holder), kinds[1], first.told())
				first.end()
				if took, ok := within(45*time.Second, second.has); !ok {
					l.log("once the other has ended: %s", took)
				}
				second.end()
				if took, ok := within(time.Minute, func() bool { return !l.here.taken() }); !ok {
					t.Fatalf("the lock is free %s", took)
				}
			}
		}
	}
}

// circles makes two processes wait for each other, in each pair of machines.
func (l *foreignLocks) circles() {
	t := l.lockingAll.t
	here, a, b := l.all[0], l.all[1], l.all[2]
	for _, pair := range [][2]*locking{{a, b}, {a, a}, {here, a}, {a, here}} {
		var both [2]*process
		var names [2]string
		for j, one := range pair {
			names[j] = one.mark("go")
			first := one.mark("first")
			both[j] = one.start(fmt.Sprintf("w %d 1 says %s await %s w %d 1", j, first, names[j], 1-j))
			comes(t, "the first lock of each", func() bool { return both[j].marks(first) })
		}
		for j, p := range both {
			must.Succeed(t, os.WriteFile(p.here(names[j]), nil, 0o644))
			time.Sleep(2 * time.Second)
		}
		took, _ := within(50*time.Second, func() bool { return both[0].told()+both[1].told() != "" })
		l.log("%s and %s wait for each other: one was told %s: %q, %q", l.who(pair[0]), l.who(pair[1]), took, both[0].told(), both[1].told())
		rest := both[1]
		if both[1].told() != "" {
			rest = both[0]
		} else if both[0].told() == "" {
			pair[0].run("kill -9 " + both[0].pid)
		}
		took, _ = within(45*time.Second, rest.has)
		l.log("the other had all %s", took)
		rest.end()
		if took, ok := within(time.Minute, func() bool { return !l.here.taken() }); !ok {
			t.Fatalf("all is free %s", took)
		}
	}
}

// restart kills a server and starts it again: alone, and with a status monitor that reports it. One
// client is notified too late, because its own monitor hangs.
func (l *foreignLocks) restart() {
	t := l.lockingAll.t
	a, b := l.all[1], l.all[2]
	has := func() bool { return l.here.has(0, 10) }
	var first, second *process
	var began time.Time
	for _, before := range []bool{false, true} {
		first, second = a.start("w 0 10"), b.start("w 20 10")
		comes(t, "the first lock", first.has)
		comes(t, "the second lock", second.has)
		b.run("kill -STOP $(cat /run/rpc.statd.pid)")
		l.log("whom the status monitor of the server's machine knows: %q", strings.Fields(l.there("ls /var/lib/nfs/sm")))
		l.kill()
		comes(t, "the server is away", func() bool { return !l.here.taken() })
		if before {
			l.notify()
		}
		l.foreign.again()
		began = time.Now()
		took, reclaimed := within(15*time.Second, has)
		l.log("started again, with sm-notify of its machine before: %t; what client %s had is reclaimed %s", before, a.g.Guest, took)
		if !reclaimed && !before {
			l.notify()
			took, reclaimed = within(20*time.Second, has)
			l.log("with sm-notify then: reclaimed %s", took)
		}
		if reclaimed || before {
			break
		}
		for _, p := range []*process{first, second} {
			p.end()
		}
		b.run("kill -CONT $(cat /run/rpc.statd.pid)")
	}
	l.log("what the other client had is there: %t", l.here.has(20, 10))
	third := a.start("w 20 10")
	took, _ := within(150*time.Second, third.has)
	l.log("another client has what was not reclaimed %s, %v after the start; told %q", took, time.Since(began).Round(time.Second), third.told())
	b.run("kill -CONT $(cat /run/rpc.statd.pid)")
	took, _ = within(60*time.Second, func() bool { return strings.Contains(b.run("dmesg"), "lockd: failed to reclaim lock") })
	l.log("the kernel of who is too late says that its lock is lost %s", took)
	second.end()
	first.end()
	took, _ = within(30*time.Second, func() bool { return !l.here.has(0, 10) })
	l.log("the first is released %s; what another took since is there: %t", took, l.here.has(20, 10))
	third.end()
	if took, ok := within(time.Minute, func() bool { return !l.here.taken() }); !ok {
		t.Fatalf("all is free %s", took)
	}
}

// crashes kills a guest with a lock, and starts it again.
func (l *foreignLocks) crashes() {
	t := l.lockingAll.t
	a, b := l.all[1], l.all[2]
	before := b.g
	b.start("w 0 10")
	comes(t, "the lock of who will crash", func() bool { return l.here.has(0, 10) })
	b.run("tar -c -f /share/nsm.tar -C /var/lib nfs/sm nfs/state")
	state, err := os.ReadFile(filepath.Join(before.Share, "nsm.tar"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	before.Kill()
	forget(before)
	waiter := a.start("w 5 1")
	b.g = clientOn(t, "6.12", before.Device)
	forwards(t, b.g.Device)
	l.log("the guest had address %s, and has %s; before it says so its lock is there: %t", before.Guest, b.g.Guest, l.here.has(0, 10) && !waiter.has())
	must.Succeed(t, os.WriteFile(filepath.Join(b.g.Share, "nsm.tar"), state, 0o644))
	run(t, b.g, "hostname client1")
	lockUp(t, b.g)
	notify := fromHost(t, b.g, "sm-notify")
	b.run("tar -x -f /share/nsm.tar -C /var/lib; rm /share/nsm.tar; " + notify)
	took, _ := within(90*time.Second, waiter.has)
	l.log("who waited had it %s sm-notify of the guest", strings.Replace(took, "after", "within", 1))
	waiter.end()
	run(t, b.g, l.foreign.mount(b.g, "tcp"))
	b.command = intoGuest(t, b.g, program(t, "test/linux/cmd/locker"))
	if took, ok := within(time.Minute, func() bool { return !l.here.taken() }); !ok {
		t.Errorf("all is free %s", took)
	}
}

// goesForGood kills a guest with a lock, and does not start it again. NFSRDMA_GONE is the time for
// which a waiter is watched.
func (l *foreignLocks) goesForGood() {
	t := l.lockingAll.t
	a, b := l.all[1], l.all[2]
	looks, err := time.ParseDuration(os.Getenv("NFSRDMA_GONE"))
	if err != nil {
		looks = 3 * time.Minute
	}
	b.start("w 0 10")
	comes(t, "the lock of who will be gone", func() bool { return l.here.has(0, 10) })
	other := a.start("w 20 10")
	comes(t, "the lock of who stays", other.has)
	waiter := a.start("w 5 1")
	b.g.Kill()
	took, _ := within(looks, func() bool { time.Sleep(time.Second); return waiter.has() })
	l.log("who waits had the lock of a guest that is gone %s; the lock of who stays is there: %t", took, l.here.has(20, 10))
	if l.g != nil {
		for _, address := range []string{b.g.Guest, l.g.Guest} {
			out := l.there("echo " + address + " > /proc/fs/nfsd/unlock_ip; echo status $?")
			took, _ = within(40*time.Second, waiter.has)
			l.log("%s to unlock_ip (%s): who waits had it %s; the lock of who stays is there: %t", address, strings.TrimSpace(out), took, l.here.has(20, 10))
		}
	}
	forget(b.g)
	waiter.end()
	other.end()
	took, _ = within(45*time.Second, func() bool { return !l.here.has(20, 10) })
	l.log("who stays releases its lock: free %s", took)
}

// withMount locks from a guest, from nfsrdma mount and from a program on the server's machine. Then
// the server starts again.
func (l *foreignLocks) withMount() {
	l.mounting(func(three *foreignLocks, ours *locking) {
		t := ours.t
		three.kinds()
		three.eachWaiter()
		three.eachPart()
		held := ours.start("w 0 10")
		comes(t, "a lock of the mount", held.has)
		l.kill()
		comes(t, "the server is away", func() bool { return !l.here.taken() })
		l.foreign.again()
		took, _ := within(30*time.Second, func() bool { return l.here.has(0, 10) })
		l.log("the server started again: the mount has its lock %s", took)
		held.end()
		// knfsd takes no UNLOCK in its period of grace
		took, _ = within(2*time.Minute, func() bool { return !l.here.taken() })
		l.log("it is released %s", took)
	})
}

// circlesWithMount runs circles with nfsrdma mount as one of the clients.
func (l *foreignLocks) circlesWithMount() {
	l.mounting(func(three *foreignLocks, _ *locking) { three.circles() })
}

// mounting runs nfsrdma mount on a further machine, with a port mapper, beside a guest and a
// program on the server's machine.
func (l *foreignLocks) mounting(ask func(three *foreignLocks, ours *locking)) {
	t := l.lockingAll.t
	const host, address = "198.19.255.253", "198.19.255.254"
	cmd := exec.Command("unshare", "-n", "-m", "sh", "-euc", `mount -t tmpfs none /run; ip link set lo up; exec rpcbind -f`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	by := []string{"nsenter", "--net=/proc/" + pid + "/ns/net"}
	comes(t, "a port mapper", func() bool {
		return exec.Command(by[0], append(by[1:], "rpcinfo", "-p", "127.0.0.1")...).Run() == nil
	})
	shell(t, fmt.Sprintf("ip link add nfsrdmav type veth peer name nfsrdmaw netns %s && ip addr add %s/30 dev nfsrdmav && ip link set nfsrdmav up", pid, host))
	forwards(t, "nfsrdmav")
	shell(t, strings.Join(by, " ")+fmt.Sprintf(" sh -ec 'ip addr add %s/30 dev nfsrdmaw; ip link set nfsrdmaw up; ip route add default via %s'", address, host))
	to, protos := host, []string{"tcp"}
	if l.g != nil {
		to, protos = l.g.Guest, []string{"tcp", "rdma"}
	}
	nfsrdma := program(t, "cmd/nfsrdma")
	for _, proto := range protos {
		dir := t.TempDir()
		args := append(by[1:len(by):len(by)], nfsrdma, "mount", "--foreground", "-o", "proto="+proto, to+":/export", dir)
		var said lockedBuffer
		serving := exec.Command(by[0], args...)
		serving.Stdout, serving.Stderr = &said, &said
		serving.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := serving.Start(); err != nil {
			t.Fatalf("serving.Start: %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- serving.Wait() }()
		comes(t, "a mount of ours", func() bool {
			if len(ended) > 0 {
				t.Fatalf("mount: %v, %s", <-ended, said.String())
			}
			_, err := os.Stat(filepath.Join(dir, "lock"))
			return err == nil
		})
		t.Cleanup(func() {
			if t.Failed() {
				out, err := exec.Command(nfsrdma, "mountstats", "--json", dir).CombinedOutput()
				t.Logf("figures of the mount: %v, %s", err, out)
			}
			t.Logf("the mount wrote: %s", said.String())
			_ = exec.Command("umount", "-l", dir).Run()
		})
		ours := &locking{t: t, mounted: true, path: filepath.Join(dir, "lock"), command: program(t, "test/linux/cmd/locker"), count: l.all[0].count}
		t.Logf("over %s", proto)
		ask(&foreignLocks{foreign: l.foreign, lockingAll: lockingAll{t: t, here: l.here, all: []*locking{l.all[0], l.all[2], ours}}}, ours)
		out, err := exec.Command(nfsrdma, "mountstats", "--json", dir).CombinedOutput()
		t.Logf("figures of the mount: %v, %s", err, out)
		out, _ = exec.Command(by[0], append(by[1:], "rpcinfo", "-p", "127.0.0.1")...).Output()
		t.Logf("its port mapper:\n%s", out)
		unmountOurs(t, nfsrdma, dir)
	}
}
