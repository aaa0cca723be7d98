// The workers' programs.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// The size of a record, in bytes, is no whole number of pages, so that records share some
	// pages.
	recordSize = 5000
	// The number of record positions; record n overwrites record n - recordPlaces.
	recordPlaces = 16
)

// record returns the content of record i, and place its position.
func record(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%09d\n", i), recordSize/10) }
func place(i int) int64   { return int64(i%recordPlaces) * recordSize }

// recordsWorker writes and syncs one more record of a file in each step. It prints the record's
// number when the sync is acknowledged. Argument: FILE.
func recordsWorker(args []string, lines *bufio.Scanner) error {
	f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	for i := 0; lines.Scan(); i++ {
		if _, err := f.WriteAt(record(i), place(i)); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("fsync of record %d: %w", i, err)
		}
		fmt.Println(i)
	}
	return f.Close()
}

// writtenWorker checks that each place has the last of n records, and that the file has nothing
// else. Arguments: FILE N.
func writtenWorker(args []string, _ *bufio.Scanner) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if want := min(n, recordPlaces) * recordSize; len(b) != want {
		return fmt.Errorf("%s has %d bytes, want %d", args[0], len(b), want)
	}
	for i := max(0, n-recordPlaces); i < n; i++ {
		if got := b[place(i) : place(i)+recordSize]; !bytes.Equal(got, record(i)) {
			return fmt.Errorf("%s: record %d of %d, acknowledged, is %.10q…", args[0], i, n, got)
		}
	}
	return nil
}

// exchangeWorker writes a file in one directory and reads it in the other, alternately. Data that
// was closed before an open must be visible. Arguments: A B.
func exchangeWorker(args []string, lines *bufio.Scanner) error {
	for i := 0; lines.Scan(); i++ {
		from, to := args[i%2], args[1-i%2]
		name, text := fmt.Sprint("exchanged-", i%3), bytes.Repeat(fmt.Appendf(nil, "%09d\n", i), 1+100*(i%7))
		at := filepath.Join(from, name)
		var err error
		if i%4 < 2 {
			err = os.WriteFile(at, text, 0o644)
		} else { // a new file replaces the old one
			temporary := filepath.Join(from, "temporary")
			if err = os.WriteFile(temporary, text, 0o644); err == nil {
				err = os.Rename(temporary, at)
			}
		}
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !bytes.Equal(got, text) {
			return fmt.Errorf("round %d: %d bytes %.10q, %v, want %d bytes %.10q", i, len(got), got, err, len(text), text)
		}
		fmt.Println(i)
	}
	return nil
}

// increment adds one to the number in a file, and returns the sum. Two concurrent calls would
// return the same sum.
func increment(f *os.File) (int, error) {
	var b [8]byte
	if n, err := f.ReadAt(b[:], 0); err != nil {
		return 0, fmt.Errorf("read %d bytes: %w", n, err)
	}
	n, err := strconv.Atoi(string(b[:]))
	if err != nil {
		return 0, err
	}
	n++
	if _, err := f.WriteAt(fmt.Appendf(nil, "%08d", n), 0); err != nil {
		return 0, err
	}
	return n, nil
}

// lock takes an fcntl(2) lock on the first byte, and waits if necessary.
func lock(f *os.File, kind int16, how int) error {
	err := syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		errno := unix.FcntlFlock(f.Fd(), how, &unix.Flock_t{Type: kind, Len: 1})
		if errno == nil {
			return nil
		}
		if !errors.As(errno, &err) {
			return errno
		}
	}
	return err
}

// countWorker increments the number in a file while it holds the lock, and prints the result.
// Argument: FILE.
func countWorker(args []string, lines *bufio.Scanner) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for lines.Scan() {
		if err := lock(f, unix.F_WRLCK, unix.F_SETLKW); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		n, err := increment(f)
		if err != nil {
			return err
		}
		if err := lock(f, unix.F_UNLCK, unix.F_SETLK); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		fmt.Println(n)
	}
	return f.Close()
}

// tokenWorker increments the number while it has renamed a file, which only one worker can do at a
// time, and renames the file back. Arguments: DIR NAME.
func tokenWorker(args []string, lines *bufio.Scanner) error {
	free, mine := filepath.Join(args[0], "token"), filepath.Join(args[0], "token-"+args[1])
	for lines.Scan() {
		for {
			err := os.Rename(free, mine)
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		f, err := os.OpenFile(filepath.Join(args[0], "number"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		n, err := increment(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		// From here only this worker renames the token back. ErrNotExist means: the first server
		// renamed it and died before its reply, and another worker has already taken the token.
		if err := os.Rename(mine, free); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// holdWorker alternately locks a file, and prints "locked", and releases it, and prints "released".
// Each step takes one input line. Argument: FILE.
func holdWorker(args []string, lines *bufio.Scanner) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for lines.Scan() {
		if err := lock(f, unix.F_WRLCK, unix.F_SETLKW); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		fmt.Println("locked")
		if !lines.Scan() {
			break
		}
		if err := lock(f, unix.F_UNLCK, unix.F_SETLK); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		fmt.Println("released")
	}
	return f.Close()
}
