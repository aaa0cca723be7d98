// Small programs that use a mount: many that append, two that take turns, one whose synced data is
// counted, one that fills the disk.

package mount

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// appendLine returns a line of appender id, of more than one length.
func appendLine(id, i int) string {
	return fmt.Sprintf("%d %d %s\n", id, i, strings.Repeat("x", (id*31+i*17)%200))
}

// appendWorker appends COUNT lines to a file: FILE ID COUNT.
func appendWorker(args []string) error {
	id, _ := strconv.Atoi(args[1])
	count, _ := strconv.Atoi(args[2])
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	for i := range count {
		if _, err := f.WriteString(appendLine(id, i)); err != nil {
			return err
		}
	}
	return f.Close()
}

// appendedWorker checks that a file has each line of each appender once, whole, and in its order:
// FILE IDS COUNT.
func appendedWorker(args []string) error {
	ids, _ := strconv.Atoi(args[1])
	count, _ := strconv.Atoi(args[2])
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	next := make([]int, ids)
	in := bufio.NewReader(f)
	for n := range ids * count {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%d lines of %d: %w", n, ids*count, err)
		}
		var id, i int
		if _, err := fmt.Sscanf(line, "%d %d", &id, &i); err != nil || id >= ids || i != next[id] || line != appendLine(id, i) {
			return fmt.Errorf("line %d is %q", n, line)
		}
		next[id]++
	}
	if rest, _ := in.ReadString(0); rest != "" {
		return fmt.Errorf("%d bytes too many", len(rest))
	}
	return nil
}

// ctoWorker writes a file in one directory and reads it in the other, by turns; both are the same
// export: A B COUNT SEED. A file closed before an open must be seen.
func ctoWorker(args []string) error {
	count, _ := strconv.Atoi(args[2])
	seed, _ := strconv.ParseUint(args[3], 10, 64)
	rnd := rand.New(rand.NewPCG(seed, 3))
	size := 1000
	for i := range count {
		from, to := args[i%2], args[1-i%2]
		if rnd.IntN(2) == 0 {
			size = rnd.IntN(300000) // else as before: only the contents differ
		}
		data := bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(rnd.Uint32())}, size/3+1)[:size]
		name := fmt.Sprintf("f%d", rnd.IntN(3))
		var err error
		what := rnd.IntN(3)
		switch what {
		case 0: // in place, shrinking or growing
			err = writeInPlace(filepath.Join(from, name), data)
		case 1:
			err = os.WriteFile(filepath.Join(from, name), data, 0o644)
		default: // a new file takes the name
			tmp := filepath.Join(from, "tmp")
			if err = os.WriteFile(tmp, data, 0o644); err == nil {
				err = os.Rename(tmp, filepath.Join(from, name))
			}
		}
		if err != nil {
			return err
		}
		// The other side may remember that the name was absent: only opens learn of changes at
		// once.
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			return fmt.Errorf("round %d, way %d: %w", i, what, err)
		}
		if err := compare(fmt.Sprintf("round %d, way %d, %s", i, what, filepath.Join(to, name)), got, data, 0); err != nil {
			return err
		}
	}
	return nil
}

// writeInPlace writes a file without making it empty first.
func writeInPlace(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if terr := f.Truncate(int64(len(data))); err == nil {
		err = terr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// recordSize is the bytes of a record of writerWorker.
const recordSize = 5000

func record(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%09d\n", i)), recordSize/10) }

// writerWorker writes records and prints the number of each that fsync has acknowledged,
// until its standard input ends: FILE.
func writerWorker(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		close(stop)
	}()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return f.Close()
		default:
		}
		if _, err := f.WriteAt(record(i), int64(i)*recordSize); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync of record %d: %w", i, err)
		}
		fmt.Println(i)
	}
}

// writtenWorker checks that a file has the records up to LAST: FILE LAST.
func writtenWorker(args []string) error {
	last, _ := strconv.Atoi(args[1])
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, recordSize)
	for i := 0; i <= last; i++ {
		if _, err := f.ReadAt(b, int64(i)*recordSize); err != nil {
			return fmt.Errorf("record %d of %d: %w", i, last, err)
		}
		if !bytes.Equal(b, record(i)) {
			return fmt.Errorf("record %d of %d, acknowledged, is %q…", i, last, b[:10])
		}
	}
	return nil
}

// fillWorker writes a file until the disk is full, and must get that error: FILE BYTES ERRNO. After
// it has removed the file, another write succeeds.
func fillWorker(args []string) error {
	size, _ := strconv.Atoi(args[1])
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	b := make([]byte, 1<<16)
	where := "write"
	for n := 0; n < size && err == nil; n += len(b) {
		_, err = f.Write(b)
	}
	if err == nil {
		where, err = "fsync", f.Sync()
	}
	if cerr := f.Close(); err == nil {
		where, err = "close", cerr
	}
	if errName(err) != args[2] {
		return fmt.Errorf("%s: %s, want %s", where, errName(err), args[2])
	}
	fmt.Println("told at", where)
	if err := os.Remove(args[0]); err != nil {
		return err
	}
	return os.WriteFile(args[0]+"-small", []byte("there is room again"), 0o644)
}

// heldSize is the number of unsynced bytes written by holdWorker.
const heldSize = 1 << 20

// holdWorker writes a file, keeps it open, prints "open", and ends with its standard input: FILE.
func holdWorker(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(bytes.Repeat([]byte("h"), heldSize)); err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return f.Close()
}

// touchWorker uses a mount once, and expects an errno, or OK: DIR ERRNO.
func touchWorker(args []string) error {
	var st unix.Stat_t
	err := unix.Stat(args[0], &st)
	if err == nil {
		err = os.WriteFile(filepath.Join(args[0], "touched"), []byte("x"), 0o644)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && errName(err) == args[1] || err == nil && args[1] == "OK" {
		return nil
	}
	return fmt.Errorf("%s, want %s", errName(err), args[1])
}
