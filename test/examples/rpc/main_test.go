// The example of the README, run.

package main

func Example() {
	main()
	// Output:
	// 100000 bytes: RDMA RDMA…
	// 100000 bytes: RDMA RDMA…
}
