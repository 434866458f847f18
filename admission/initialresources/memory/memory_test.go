package memory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission/initialresources"
	"github.com/keelson-dev/keelson/admission/initialresources/historytest"
	"github.com/keelson-dev/keelson/admission/initialresources/memory"
)

func TestContract(t *testing.T) {
	historytest.Run(t, func(_ testing.TB, samples []historytest.Sample) initialresources.History {
		h := memory.New(memory.Options{})
		for _, s := range samples {
			h.Add(memory.Sample(s))
		}
		return h
	})
}

// usage is what is known of an image.
func usage(h *memory.History, image string, percentile int) initialresources.Usage {
	u, err := h.Usage(context.Background(), initialresources.Query{
		Resource: corev1.ResourceCPU, Image: image, Percentile: percentile, From: time.Unix(0, 0), To: time.Unix(1<<40, 0),
	})
	if err != nil {
		panic(err)
	}
	return u
}

// TestBounds: the newest measurements are kept, and the images that were measured last.
func TestBounds(t *testing.T) {
	h := memory.New(memory.Options{Images: 3, Samples: 10})
	for i := range int64(25) {
		h.Add(memory.Sample{Image: "a", Resource: corev1.ResourceCPU, Value: i, At: time.Unix(i, 0)})
	}
	if least, most := usage(h, "a", 1), usage(h, "a", 100); least != (initialresources.Usage{Value: 15, Samples: 10}) || most.Value != 24 {
		t.Errorf("from %+v to %+v", least, most)
	}
	for _, image := range []string{"b", "c", "a", "d"} {
		h.Add(memory.Sample{Image: image, Resource: corev1.ResourceCPU, Value: 99, At: time.Unix(99, 0)})
	}
	for image, want := range map[string]int{"a": 10, "b": 0, "c": 1, "d": 1} {
		if got := usage(h, image, 50).Samples; got != want {
			t.Errorf("%s has %d, want %d", image, got, want)
		}
	}
}

// TestDefaultBounds: without options, 2,000 images with 1,000 measurements of each resource are kept.
func TestDefaultBounds(t *testing.T) {
	for name, o := range map[string]memory.Options{"none": {}, "negative": {Images: -1, Samples: -1}} {
		h := memory.New(o)
		for i := range int64(1001) {
			h.Add(memory.Sample{Image: "a", Resource: corev1.ResourceCPU, Value: i, At: time.Unix(i, 0)})
		}
		if least := usage(h, "a", 0); least != (initialresources.Usage{Value: 1, Samples: 1000}) {
			t.Errorf("%s: %+v", name, least)
		}
		for i := range 2000 {
			if i == 1999 && usage(h, "a", 0).Samples == 0 {
				t.Errorf("%s: the oldest of 2,000 images is forgotten", name)
			}
			h.Add(memory.Sample{Image: fmt.Sprint("image-", i), Resource: corev1.ResourceCPU, At: time.Unix(1, 0)})
		}
		if usage(h, "a", 0).Samples != 0 || usage(h, "image-0", 0).Samples != 1 {
			t.Errorf("%s: the oldest of 2,001 images is known, or the next one is not", name)
		}
	}
}

// TestAtOnce: measurements are added while others ask.
func TestAtOnce(t *testing.T) {
	h := memory.New(memory.Options{Images: 10, Samples: 10})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range int64(200) {
				image := fmt.Sprint("image-", i%20)
				h.Add(memory.Sample{Image: image, Resource: corev1.ResourceCPU, Value: int64(w), At: time.Unix(i, 0)})
				if u := usage(h, image, 100); u.Value > 3 || u.Samples > 10 {
					t.Errorf("%+v", u)
				}
			}
		})
	}
	all.Wait()
}

func Example() {
	h := memory.New(memory.Options{})
	now := time.Now()
	for used := range int64(100) { // such as a metrics pipeline reports
		h.Add(memory.Sample{Namespace: "shop", Image: "nginx:1.27", Resource: corev1.ResourceCPU, Value: used, At: now})
	}
	u, err := h.Usage(context.Background(), initialresources.Query{
		Resource: corev1.ResourceCPU, Image: "nginx:1.27", Percentile: 90, From: now.Add(-time.Hour), To: now,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("90 of 100 measurements were not above %dm\n", u.Value)
	// Output: 90 of 100 measurements were not above 89m
}
