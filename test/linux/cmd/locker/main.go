// Command locker locks bytes of a file as one process, in the guest.
//
//	locker FILE try w 10 5 r 0 0 …                each without waiting; "granted" or "denied" for each
//	locker FILE hold w 10 5 says /x await /y …    waits for locks, makes files, waits for files; then ends
//
// "r" and "w" are locks of fcntl(2), "R" and "W" those of flock(2), of all bytes whatever is said. "tells /z" before them has an error
// written to a file.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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
			err = errors.Join(err, tell(tells, err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tell writes an error to a file, which is there when it is whole.
func tell(path string, err error) error {
	if err := os.WriteFile(path+".new", []byte(err.Error()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// lock takes bytes; where it does not wait it prints "granted" or "denied", and releases them.
func lock(f *os.File, args []string, wait bool) error {
	if args[0] == "R" || args[0] == "W" {
		return flock(f, args[0] == "W", wait)
	}
	k := syscall.Flock_t{Type: syscall.F_WRLCK}
	if args[0] == "r" {
		k.Type = syscall.F_RDLCK
	}
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

// flock is lock with flock(2).
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
