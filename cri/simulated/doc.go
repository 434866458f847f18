// Package simulated is a container runtime without containers: a cri.RuntimeService and cri.ImageService that keep
// sandboxes, containers and images in memory, obey the whole contract (see package runtimetest), and fail on demand.
//
// By default every operation succeeds at once, images are pulled from a registry that has everything, a container runs
// until it is stopped, and a stopped container exits at once with code 0. Options.Behave makes operations slow, hang or
// fail; Options.Program sets how containers behave.
//
// By default logs are empty, attached clients are shown the log until the container ends, and exec and port-forward fail with
// an error that names the option: Program.Log, Program.Streams and Runtime.WriteLog script them. A Runtime connects streams
// itself (cri.StreamHandler, cri.LogOpener); package cri/streams serves them under URLs.
//
// Time is the standard library's, so a Runtime inside a testing/synctest bubble runs in virtual time. IDs are derived
// from the owner of a sandbox or container, and addresses from the pod's UID, so that a test sees the same ones in
// every run.
//
// Errors are those of package cri. A Runtime is safe for concurrent use; Close ends the timers of
// running containers and waits for them.
package simulated
