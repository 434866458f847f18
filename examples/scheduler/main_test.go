package main

// Example shows what was decided and why: the reader prefers the cheap node, but the drums are
// there.
func Example() {
	main()
	// Output:
	// default/drums goes to node-0: 3/3 nodes are available
	//   NODE    TOTAL  TaintToleration×3  NodeAffinity×2  NodeResourcesFit  NodeResourcesBalancedAllocation  ImageLocality  Cheap×5
	//   node-0  898    100 (0)            -               98                -                                -              100
	//   node-1  398    100 (0)            -               98                -                                -              0
	//   node-2  398    100 (0)            -               98                -                                -              0
	//
	// default/reader goes to node-2: 2/3 nodes are available
	//   NODE    TOTAL  TaintToleration×3  NodeAffinity×2  NodeResourcesFit  NodeResourcesBalancedAllocation  ImageLocality  Cheap×5
	//   node-2  398    100 (0)            -               98                -                                -              0
	//   node-1  398    100 (0)            -               98                -                                -              0
	//   NODE    REFUSED BY  REASON                  PREEMPTION
	//   node-0  Quiet       node(s) had noisy pods  might help
}
