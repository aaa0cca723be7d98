// The example of docs/library.md, run.

package main

func Example() {
	main()
	// Output:
	// 100000 bytes: RDMA RDMA…
	// 100000 bytes: RDMA RDMA…
}
