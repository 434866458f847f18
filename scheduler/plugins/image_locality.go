package plugins

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// The sizes, in bytes, that a pod's images on a node must exceed in total to count, and the maximum that counts
// per container.
const (
	leastImages int64 = 23 << 20
	mostImages  int64 = 1000 << 20
)

// ImageLocality prefers nodes that already have the pod's images, by their sizes. An image that only some of
// the nodes have counts by their share, so that a single node with an image does not attract all its pods. It
// depends on all nodes of the snapshot, so it is not scheduler.Local.
type ImageLocality struct{}

// Name returns "ImageLocality".
func (ImageLocality) Name() string { return "ImageLocality" }

// Score scores the node as the only one of the cluster; PrepareScores considers all nodes.
func (ImageLocality) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	images := imagesOf(pod)
	return imageScore(images, node, func(string) float64 { return 1 })
}

// PrepareScores counts the nodes that have each image. It skips a pod of whose images no node has any: the
// score would be 0.
func (ImageLocality) PrepareScores(pod *corev1.Pod, s *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	images := imagesOf(pod)
	share := map[string]float64{}
	for _, image := range images {
		if n := s.NodesWithImage(image); n > 0 {
			share[image] = float64(n) / float64(len(s.Nodes()))
		}
	}
	if len(share) == 0 {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 {
		return imageScore(images, n, func(image string) float64 { return share[image] })
	}}, nil
}

func imageScore(images []string, node *scheduler.NodeInfo, share func(image string) float64) int64 {
	if len(images) == 0 {
		return 0
	}
	var sum int64
	for _, image := range images {
		if size, ok := node.Images[image]; ok {
			sum += int64(float64(size) * share(image))
		}
	}
	most := mostImages * int64(len(images))
	sum = min(max(sum, leastImages), most)
	return scheduler.MaxScore * (sum - leastImages) / (most - leastImages)
}

// imagesOf returns the images of a pod's containers and image volumes, as nodes name them.
func imagesOf(pod *corev1.Pod) []string {
	var images []string
	add := func(image string) {
		if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
			image += ":latest"
		}
		images = append(images, image)
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference)
		}
	}
	return images
}
