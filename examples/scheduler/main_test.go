package main

// Example shows the decisions and their reasons: the reader prefers the cheap node, but the drums are on it.
func Example() {
	main()
	// Output:
	// default/drums goes to node-0: 3/3 nodes are available
	//   NODE    TOTAL  TaintToleration×3  NodeAffinity×2  NodeResourcesFit  VolumeBinding  PodTopologySpread×2  InterPodAffinity×2  DynamicResources×2  NodeResourcesBalancedAllocation  ImageLocality  Rooms×5
	//   node-0  898    100 (0)            -               98                -              -                    -                   -                   -                                -              100
	//   node-1  398    100 (0)            -               98                -              -                    -                   -                   -                                -              0
	//   node-2  398    100 (0)            -               98                -              -                    -                   -                   -                                -              0
	// drums is bound to node-0
	//
	// default/reader goes to node-2: 2/3 nodes are available
	//   NODE    TOTAL  TaintToleration×3  NodeAffinity×2  NodeResourcesFit  VolumeBinding  PodTopologySpread×2  InterPodAffinity×2  DynamicResources×2  NodeResourcesBalancedAllocation  ImageLocality  Rooms×5
	//   node-2  398    100 (0)            -               98                -              -                    -                   -                   -                                -              0
	//   node-1  398    100 (0)            -               98                -              -                    -                   -                   -                                -              0
	//   NODE    REFUSED BY  REASON                  PREEMPTION
	//   node-0  Rooms       node(s) had noisy pods  might help
	// reader is bound to node-2
}
