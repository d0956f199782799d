package main

import "os"

// passedOn are the signals that a command gets from exec: Windows sends them to both by itself.
var passedOn = []os.Signal{os.Interrupt}

func terminate(p *os.Process) error { return p.Kill() }

func signalOf(*os.ProcessState) int { return 0 }
