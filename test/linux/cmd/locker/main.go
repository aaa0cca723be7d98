// Command locker locks bytes of a file as one process, in the guest.
//
//	locker FILE try w 10 5 r 0 0 …               tries each without waiting; prints granted or denied
//	locker FILE hold w 10 5 says /x await /y …   waits for locks, makes files, waits for files; ends
//	locker FILE count 20                         20 times: locks the file, increments the number
//	                                             in it, prints that, releases the lock
//
// "r" and "w" are fcntl(2) locks. "R" and "W" are flock(2) locks, always on all bytes. "u" and "U"
// release them. After "tells /z", an error is written to that file.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("locker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if args[1] == "count" {
		return count(f, args[2])
	}
	hold := args[1] == "hold"
	tells := ""
	for args = args[2:]; len(args) > 0; {
		switch args[0] {
		case "tells":
			tells = args[1]
			args = args[2:]
		case "says":
			err = os.WriteFile(args[1], nil, 0o644)
			args = args[2:]
		case "await":
			for err = os.ErrNotExist; err != nil; time.Sleep(50 * time.Millisecond) {
				_, err = os.Stat(args[1])
			}
			args = args[2:]
		default:
			err = lock(f, args, hold)
			args = args[3:]
		}
		if err != nil && tells != "" {
			err = errors.Join(err, writeError(tells, err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count increments the number in a file while it holds the lock.
func count(f *os.File, times string) error {
	n, err := strconv.Atoi(times)
	for i := 0; i < n && err == nil; i++ {
		if err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
			break
		}
		var b [20]byte
		is, got := 0, 0
		if got, err = f.ReadAt(b[:], 0); errors.Is(err, io.EOF) {
			is, err = strconv.Atoi(strings.TrimSpace(string(b[:got])))
		}
		if err == nil {
			_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", is+1), 0)
		}
		if err == nil {
			err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_UNLCK})
		}
		fmt.Println(is + 1)
	}
	return err
}

// writeError writes an error to a file, atomically.
func writeError(path string, err error) error {
	if err := os.WriteFile(path+".new", []byte(err.Error()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// lock takes a lock. Without wait it prints "granted" or "denied", and releases a granted lock.
func lock(f *os.File, args []string, wait bool) error {
	switch args[0] {
	case "R", "W":
		return flock(f, args[0] == "W", wait)
	case "U":
		return syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	}
	k := syscall.Flock_t{Type: map[string]int16{"r": syscall.F_RDLCK, "w": syscall.F_WRLCK, "u": syscall.F_UNLCK}[args[0]]}
	var err, err2 error
	k.Start, err = strconv.ParseInt(args[1], 10, 64)
	k.Len, err2 = strconv.ParseInt(args[2], 10, 64)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if wait {
		return syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &k)
	}
	switch err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &k); {
	case err == nil:
		fmt.Println("granted")
		k.Type = syscall.F_UNLCK
		return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &k)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		fmt.Println("denied")
		return nil
	default:
		return err
	}
}

// flock takes a lock like lock, through flock(2).
func flock(f *os.File, exclusive, wait bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	if wait {
		return syscall.Flock(int(f.Fd()), how)
	}
	switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
	case err == nil:
		fmt.Println("granted")
		return syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	case errors.Is(err, syscall.EWOULDBLOCK):
		fmt.Println("denied")
		return nil
	default:
		return err
	}
}
