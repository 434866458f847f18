package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) images(t *testing.T) {
	ctx := s.context(t)
	ref := s.pull(t, s.Sleeper)
	byName, err := s.runtime.ImageStatus(ctx, cri.ImageSpec{Image: s.Sleeper.Image})
	if err != nil || byName.ID == "" || byName.Size == 0 {
		t.Fatalf("ImageStatus: %+v, %v", byName, err)
	}
	byRef, err := s.runtime.ImageStatus(ctx, cri.ImageSpec{Image: ref})
	if err != nil || byRef.ID != byName.ID {
		t.Errorf("the reference %s names %+v, %v", ref, byRef, err)
	}
	list, err := s.runtime.ListImages(ctx)
	if err != nil || !slices.ContainsFunc(list, func(i cri.Image) bool { return i.ID == byName.ID }) {
		t.Errorf("ListImages: %v, %v", list, err)
	}
	unknown := cri.ImageSpec{Image: "runtimetest.invalid/never/pulled:1"}
	_, err = s.runtime.ImageStatus(ctx, unknown)
	is(t, "ImageStatus", err, cri.ErrNotFound)
	if err := s.runtime.RemoveImage(ctx, unknown); err != nil {
		t.Errorf("RemoveImage of one that is not there: %v", err)
	}
	if s.MissingImage != "" {
		if ref, err := s.runtime.PullImage(ctx, cri.ImageSpec{Image: s.MissingImage}, nil); err == nil {
			t.Errorf("%s was pulled as %s", s.MissingImage, ref)
		}
	}
}

// events checks that each change is reported, in order, if the runtime has events.
func (s suite) events(t *testing.T) {
	source, ok := s.runtime.(cri.EventSource)
	if !ok {
		t.Log("this runtime tells no events")
		return
	}
	ctx := s.context(t)
	stream := s.live(t, source)
	defer stream.Close()
	sandbox, container := s.running(t, s.Success)
	s.exited(t, container)
	if err := s.runtime.RemovePodSandbox(ctx, sandbox); err != nil {
		t.Fatalf("RemovePodSandbox: %v", err)
	}
	var told []cri.EventType
	for len(told) < 4 {
		batch, err := stream.Next(ctx)
		if err != nil {
			t.Fatalf("Next after %v: %v", told, err)
		}
		for _, e := range batch {
			if e.ID == container {
				told = append(told, e.Type)
			}
			if (e.ID == container || e.ID == sandbox) && e.Pod.Name != "pod" {
				t.Errorf("an event says that it is about the pod %+v", e.Pod)
			}
		}
	}
	want := []cri.EventType{cri.EventCreated, cri.EventStarted, cri.EventStopped, cri.EventDeleted}
	if !slices.Equal(told, want) {
		t.Errorf("events %v, want %v", told, want)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var err error
	for err == nil {
		_, err = stream.Next(ended)
	}
	is(t, "Next after the context has ended", err, context.Canceled)
	stream.Close()
	stream.Close()
}

// copies checks that callers and runtime do not share maps.
func (s suite) copies(t *testing.T) {
	ctx, want := s.context(t), pod(t, "pod")
	id := s.sandbox(t, want)
	want.Labels["later"] = "yes"
	status, err := s.runtime.SandboxStatus(ctx, id)
	if err != nil || status.Labels["later"] != "" {
		t.Errorf("the sandbox follows its caller's map: %v, %v", status.Labels, err)
	}
	status.Labels["later"] = "yes"
	if status, err = s.runtime.SandboxStatus(ctx, id); err != nil || status.Labels["later"] != "" {
		t.Errorf("a status is shared: %v, %v", status.Labels, err)
	}
}

func (s suite) concurrent(t *testing.T) {
	ctx, ref := s.context(t), s.pull(t, s.Sleeper)
	var group sync.WaitGroup
	for i := range 8 {
		config0 := pod(t, fmt.Sprintf("pod-%d", i))
		group.Go(func() {
			sandbox, err := s.runtime.RunPodSandbox(ctx, config0)
			if err != nil {
				t.Errorf("RunPodSandbox: %v", err)
				return
			}
			id, err := s.runtime.CreateContainer(ctx, sandbox, config(config0, "main", s.Sleeper, ref), config0)
			if err == nil {
				err = s.runtime.StartContainer(ctx, id)
			}
			if err == nil {
				err = s.runtime.StopContainer(ctx, id, s.Patience)
			}
			if err != nil {
				t.Errorf("a container's life: %v", err)
			}
			if err := s.runtime.RemovePodSandbox(ctx, sandbox); err != nil {
				t.Errorf("RemovePodSandbox: %v", err)
			}
		})
	}
	group.Wait()
}
