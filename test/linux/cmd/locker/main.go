// Command locker locks bytes of a file as one process, in the guest.
//
//	locker FILE try w 10 5 r 0 0 …                each without waiting; "granted" or "denied" for each
//	locker FILE hold w 10 5 says /x await /y …    waits for locks, makes files, waits for files; then ends
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
	for args = args[2:]; len(args) > 0; {
		switch args[0] {
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
		if err != nil {
			return err
		}
	}
	return nil
}

// lock takes bytes; where it does not wait it prints "granted" or "denied", and releases them.
func lock(f *os.File, args []string, wait bool) error {
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
