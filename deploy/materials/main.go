// The bill of materials and the notices of a program, from the build information in the file.

// Command materials writes a Go program's bill of materials (SBOM) as CycloneDX JSON, and with
// -notices its modules' licenses. Both depend only on the file, the module cache and
// SOURCE_DATE_EPOCH.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	notices := flag.String("notices", "", "file for the licenses of the modules in PROGRAM; run it in the directory of its go.mod")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: materials [-notices FILE] PROGRAM")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *notices); err != nil {
		fmt.Fprintln(os.Stderr, "materials:", err)
		os.Exit(1)
	}
}

// run writes the bill of materials to w, and the notices to a file if one is named.
func run(w io.Writer, program, notices string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	sum, err := fileSum(program)
	if err != nil {
		return err
	}
	at, err := epoch()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(describe(info, sum, at), "", "  ")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s\n", text); err != nil || notices == "" {
		return err
	}
	return writeNotices(notices, info)
}

// epoch returns the time in SOURCE_DATE_EPOCH, or now.
func epoch() (time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return time.Now().UTC(), nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(n, 0).UTC(), nil
}
