// Package devices compares what a kubelet keeps of the devices of device plugins with upstream's file. It has tests only.
package devices
