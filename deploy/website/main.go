// The site command: the documents of the repository as static pages with search.

// Command website writes the documents of the repository as a web site to a directory.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: website DIR")
		os.Exit(1)
	}
	pages, err := build("../..", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "website:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s: open index.html\n", pages, os.Args[1])
}
